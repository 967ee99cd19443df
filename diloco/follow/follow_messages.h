// What a follower asks, and what it is told, as plain values. Nothing in an answer is believed: an
// entry is the run's if most regions signed a hash that covers it, and a blob is what its hash
// says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "diloco/log/messages.h"
#include "diloco/log/raft_log.h"
#include "diloco/maths/digest.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::diloco {

// Entries of a ledger are counted from 0 here.
struct FollowerQuestion {
  std::uint64_t first = 0;  // of the entries that are wanted
  bool wait = false;        // until there is one of them, or the run ends, or some seconds passed
  std::uint32_t most = 0;   // entries; 0: as many as an answer takes
  bool weights = false;     // they are wanted instead: `wait` until there are others than `held`
  std::optional<inter::BlobId> held = {};  // the image that is here
};

// A region says under its signature what its ledger's first `entries` entries are.
struct SignedHead {
  std::string region;
  std::string certificate;  // PEM
  std::uint64_t entries = 0;
  std::string signature;  // of signed_content(hash of the last of them)
};

// A region says under its signature which image (a file that is the same everywhere) the weights
// of a version have.
struct SignedWeights {
  Round version = 0;
  Digest state{};  // that they are the weights of
  inter::BlobId image;
  std::string signature;  // of signed_content(run, this); empty: a follower's

  bool same_weights(const SignedWeights& other) const {
    return version == other.version && state == other.state && image == other.image;
  }
};
// What the signature is of, but for which these bytes mean nothing.
std::string signed_content(const std::string& run_id, const SignedWeights& weights);

struct FollowerAnswer {
  std::string run_id;                  // empty: there is no run yet
  std::uint64_t first = 0;             // as asked
  std::vector<LogEntry> entries = {};  // from there on; perhaps not all
  std::uint64_t known = 0;             // entries that the other side has
  std::vector<SignedHead> heads = {};
  std::optional<Snapshot> snapshot = {};  // the newest
  std::optional<Applied> finished = {};   // the run ended there
  std::string settings = {};              // with the first entry: of all regions
  // To a question for weights.
  std::vector<SignedWeights> weights = {};  // the newest last
  std::string certificate = {};             // PEM, of whoever signed them
  std::optional<inter::BlobId> patch = {};  // makes the newest image of the one that was held
};

// What a follower that serves others keeps beside its ledger, which it has not signed itself: who
// did. In ledger/heads, checked like the other files there.
std::string heads_bytes(const std::vector<SignedHead>& heads);
// None: there are none, or they are damaged.
std::vector<SignedHead> read_heads(const std::filesystem::path& ledger_directory);

// The most that an answer's entries take together, unless it is one alone.
inline constexpr std::size_t kAnswerBytes = 1U << 20;
// No message is larger.
inline constexpr std::uint32_t kFollowerMessageBytesMax = 8U << 20;

std::string serialize(const FollowerQuestion& question);
std::string serialize(const FollowerAnswer& answer);
// Untrusted bytes: throw std::system_error (Errc::malformed) with what is wrong.
FollowerQuestion parse_question(const std::string& bytes);
FollowerAnswer parse_answer(const std::string& bytes);

}  // namespace causeway::diloco
