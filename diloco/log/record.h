// What regions say to each other about a round, as plain values. On the wire and on disk they are
// the Protocol Buffers messages of diloco/log/protocol.proto; conversion is in record.cc.
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/maths/digest.h"
#include "diloco/maths/train.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::diloco {

// The time that the protocol's state machines are told; they read no clock.
// A point in time: since any fixed instant, never going back.
using Time = std::chrono::microseconds;

// One region's offer; its payload is the blob. Identified by region, round and part.
struct Contribution {
  std::string run_id;
  std::string region;
  Round round = 0;                // version of the anchor that delta was taken from
  std::uint32_t part = 0;         // 1: what the region did beyond its K steps while it was cut off
  bool sits_out = false;          // nothing to offer in this round (a non-finite delta): no payload
  std::uint64_t tokens = 0;       // trained on for this contribution
  std::uint32_t steps = 0;        // inner steps of it
  double compute_s = 0;           // that they took
  std::uint64_t data_begin = 0;   // the region's sample cursor before these steps
  std::uint64_t data_cursor = 0;  // and after them
  Digest state{};                 // state_digest of the base version (anchor and outer momentum)
  double delta_norm = 0;          // ||delta|| before compression
  double error_norm = 0;          // ||p - Q(p)||
  // What K is chosen by while the run goes on (k_policy.h); 0: not measured.
  double exchange_s = 0;  // from contributing to the round before until its outcome was here
  double overhead_s = 0;  // since then, what was not inner steps
  std::optional<double> held_out_loss{};  // of version `round`
  double egress_cost = 0;  // of all that this region sent since the run began; 0: not known
  // Root over the states on the way to it (docs/proofs.md).
  std::optional<Digest> proof{};
  inter::BlobId payload{};
  // Of a sharded round (diloco/region/shards.h): the payload in parts that are blobs of their own.
  // Then `payload` is no blob, but names them all: whole_of() them.
  std::vector<inter::BlobId> shards{};
  std::optional<Digest> whole{};  // the hash of the payload before it was cut
};
// What is to be stored of it; nothing if it sits out.
std::vector<inter::BlobId> blobs_of(const Contribution& contribution);

constexpr std::size_t kShardsMax = 64;
// The hash tree's root over the shards' hashes, and their bytes.
inter::BlobId whole_of(std::span<const inter::BlobId> shards);

struct ContributionKey {
  std::string region;
  Round round = 0;
  std::uint32_t part = 0;
  auto operator<=>(const ContributionKey&) const = default;
};
inline ContributionKey key_of(const Contribution& contribution) {
  return {contribution.region, contribution.round, contribution.part};
}

struct Participant {
  std::string region;
  Round round = 0;  // of its contribution: older than the record's if it comes late
  std::uint32_t part = 0;
  float weight = 0;  // the fp32 bits are what everyone uses; docs/rounds.md has the formula
  std::uint64_t data_begin = 0;
  std::uint64_t data_cursor = 0;
  std::uint64_t tokens = 0;
  inter::BlobId payload{};
  std::optional<Digest> proof{};
  std::optional<Digest> whole{};

  // Of the payload as its region made it.
  const Digest& made_hash() const { return whole ? *whole : payload.hash; }
};

// `contribution`, listed.
Participant participant_of(const Contribution& contribution, float weight);

inline ContributionKey key_of(const Participant& participant) {
  return {participant.region, participant.round, participant.part};
}

// Whether they are of one region and share samples, which may be counted once only. That happens
// when a region lost its disk, and with it the memory of what it had sent.
template <typename One, typename Other>
bool share_samples(const One& one, const Other& other) {
  return one.region == other.region && one.data_begin < other.data_cursor &&
         other.data_begin < one.data_cursor;
}

// How the run sees one region after a round.
struct Standing {
  std::string region;
  float liveness = 1;        // in [0, 1], a factor of its weight; 0: detached
  std::uint32_t next_k = 0;  // inner steps in the next round
};

// What a round took, as the listed contributions tell, in seconds.
struct RoundMeasure {
  double step_s = 0;      // an inner step of the slowest region
  double overhead_s = 0;  // all but inner steps, in the region that waited least
  double exchange_s = 0;  // likewise, from contributing to the outcome, of the round before
  std::optional<double> held_out_loss{};  // of version `round`
};

// Of a budget for egress (egress_meter.h), in the currency of links.prices.
struct Spending {
  enum class Period { day, month, run };  // of the calendar, in UTC
  Period period = Period::run;
  double limit = 0, spent = 0;  // in the period
  double round_cost = 0;        // of all regions
  double until_unix_s = 0;      // the period's end; 0: the run's

  bool operator==(const Spending&) const = default;
};
// "egress cost 7.10 of the 10.00 a day, and a round costs 0.12"
std::string to_string(const Spending& spending);

// A decision on K, and why (k_policy.h).
struct KDecision {
  // stretched, paused, relaxed: what the budget for egress asks for, or does not any more. Paused:
  // the round lasts as long as there is no money.
  enum class Verdict { kept, changed, confirmed, reverted, stretched, paused, relaxed };
  Verdict verdict = Verdict::kept;
  std::uint32_t from = 0, k = 0;  // K before, and from the next round on
  // kept, changed: what was fitted, and the predicted time to a loss with k by that with `from`.
  double step_s = 0, prepare_s = 0, exchange_s = 0, time_ratio = 1;
  // confirmed, reverted: held-out loss before the change and after it, and the standard error of
  // their difference; 0 if there was nothing to judge by.
  double held_out_before = 0, held_out_after = 0, standard_error = 0;
  std::optional<Spending> spending{};  // stretched, paused, relaxed
};
// In words.
std::string to_string(const KDecision& decision);

// What a region has paid for all that it sent since the run began.
struct EgressCost {
  std::string region;
  double cost = 0;
};

// The decision on one round: every region applies exactly this.
struct CommitRecord {
  std::string run_id;
  Round round = 0;
  // Ascending (region, round, part): the order of summation.
  std::vector<Participant> participants;
  Digest state{};            // agreed state digest of version `round`
  Round expired_before = 0;  // contributions of earlier rounds that are not listed so far never are
  bool skip_momentum =
      false;  // too little weight: anchor <- anchor - lr * mean, momentum unchanged
  // Of the outer optimizer in this round, if not the configured one: mu^(steps / K) when the
  // fragment was exchanged after other than K steps (docs/overlap.md).
  std::optional<float> momentum{};
  std::uint32_t next_k = 0;  // inner steps of the next round, nominal: the schedule counts these
  std::uint32_t next_grace_ms = 0;    // how long the next round waits for the last regions
  std::vector<Standing> standings{};  // of every region of the roster, ascending
  // Only where K is chosen while the run goes on.
  std::optional<RoundMeasure> measured{};
  std::optional<KDecision> k_decision{};
  // Only where there is a budget for egress. By the leader's clock, since 1970; 0: not said.
  double decided_unix_s = 0;
  std::vector<EgressCost> egress{};  // ascending region
  // Contributions that nobody could supply any more, and that this record takes out of its round
  // again: it takes the place of the round's record, and voids the records of later rounds
  // (diloco/log/withdraw.h). Otherwise nothing.
  std::vector<Participant> withdrawn{};
  std::uint32_t revision = 0;  // how many of that kind came before this record
  bool next_sharded = false;   // the next round's contributions come in shards
  // Of a sharded round: the participants' weighted sum, as one payload for each shard.
  std::vector<inter::BlobId> sums{};
};
// What a worker needs to apply it: the sums, or else the participants' payloads, in their order.
std::vector<inter::BlobId> applied_blobs(const CommitRecord& record);
template <typename Predicate>
bool all_applied_blobs(const CommitRecord& record, const Predicate& holds) {
  return record.sums.empty()
             ? std::ranges::all_of(record.participants, holds, &Participant::payload)
             : std::ranges::all_of(record.sums, holds);
}

std::string serialize(const Contribution& contribution);
std::string serialize(const CommitRecord& record);
// Untrusted bytes: throw std::system_error (Errc::malformed) with what is wrong.
Contribution parse_contribution(const std::string& bytes);
CommitRecord parse_commit_record(const std::string& bytes);

}  // namespace causeway::diloco
