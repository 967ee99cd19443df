// What coordinators say to each other, as plain values. Every message may be repeated or arrive
// late: none is an instruction, each is a statement of what its sender knows, so losing one costs
// time and never agreement.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "diloco/log/raft.h"
#include "diloco/log/record.h"
#include "diloco/maths/digest.h"

namespace causeway::diloco {

// What a program trains, as it names it: for the regions of a run to compare, before numbers of one
// are added to another's.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  // SHA-256 of what the run begins with, fp32 in order of the last index; none past that.
  std::optional<Digest> values = {};
  bool operator==(const NamedTensor&) const = default;
};
using NamedTensors = std::vector<NamedTensor>;

// A clause on the first name or shape that differs from those of `region`; empty: none does.
std::string other_tensor(const NamedTensors& here, const NamedTensors& there,
                         const std::string& region);
// The name of the first tensor that begins with other values. Both have the same names and shapes.
std::optional<std::string> other_values(const NamedTensors& here, const NamedTensors& there);

// As bytes: a Tensors of protocol.proto. The latter throws Errc::malformed.
std::string serialize(const NamedTensors& tensors);
NamedTensors parse_tensors(const std::string& bytes);

// Anchor and outer momentum of one version, as opaque bytes.
struct Snapshot {
  Round version = 0;
  Digest state{};
  inter::BlobId blob;
  auto operator<=>(const Snapshot&) const = default;
};

// The state that a region's worker holds.
struct Applied {
  Round version = 0;
  Digest state{};
  bool operator==(const Applied&) const = default;
};

// Where the sender stands. Sent when a link comes up and whenever it changes.
struct Status {
  Round version = 0;               // records in the sender's ledger
  Digest head{};                   // hash chain over them: docs/audit.md
  std::optional<Applied> applied;  // by its worker, when known
  Round payloads_from =
      0;  // the sender holds every listed payload of rounds [payloads_from, version)
  std::optional<Snapshot> snapshot;
  std::uint64_t received_bytes = 0;  // of what it is fetching: grows while it makes progress
  // Of the data that all regions must have in common, as its worker reads it, when known.
  std::optional<DataDigest> data = {};
  // Payloads that its worker needs next and that it asked everybody for in vain, when nothing else
  // helps it either.
  std::vector<inter::BlobId> missing = {};
  std::uint32_t revision = 0;  // records of its ledger that took contributions out of a round again
  std::vector<Snapshot> leaps = {};  // that it goes on from while it is behind: it needs the rest
  std::vector<Snapshot> older = {};  // than `snapshot`: kept for peers that go on from them
  bool awaits_snapshot = false;      // its worker can do nothing with payloads before it has one
  bool operator==(const Status&) const = default;
};

// The sender knows this contribution and holds `received_bytes` of its payload: all of them once it
// has checked the hash, and not before. From the contributor itself it is the announcement.
struct Holding {
  Contribution contribution;
  std::uint64_t received_bytes = 0;
  bool pushing = false;  // the payload is on its way to the receiver: no need to ask for it
};

// Several of them in one message, to the leader (round/exchange.h).
struct Holdings {
  std::vector<Holding> holdings;
};

// From the leader: the record that it will propose once it knows what the shards add up to, and
// enough regions hold these sums. Whoever a shard is given to (diloco/region/shards.h, or `duties`
// beside that) says what it makes of it; of a record with its sums everybody says that it has them.
struct Draft {
  struct Duty {
    std::uint32_t shard = 0;
    std::string region;
    auto operator<=>(const Duty&) const = default;
  };
  CommitRecord record;
  std::vector<Duty> duties = {};
};

// To the leader: what these shards of a draft add up to, each as a payload that is here; and
// whether all the sums are here that the draft lists.
struct ShardSums {
  Round round = 0;
  Digest draft{};  // draft_digest() of its record
  std::map<std::uint32_t, inter::BlobId> sums;
  std::optional<Digest> held = {};  // whole_of() them
};
// Of what the sums follow from.
Digest draft_digest(const CommitRecord& draft);

// From the leader: the receiver's state of version `round`, from which it made this payload, is not
// the one that most regions hold, or no state has most of them: it must be made again from a
// snapshot. The payload is not listed.
struct Diverged {
  Round round = 0;
  inter::BlobId payload;
  bool tie = false;  // no state has most regions: nobody knows whose is wrong
};

// To the leader: an operator wants this member in the run, or out of it.
struct ChangeMember {
  Member member;
  bool remove = false;
};

// From the leader: every region that could be waited for has the last version.
struct Finished {};

// What the sender's program trains, or a piece of that: a model of many small tensors has more
// names than one message takes. Sent when a link comes up and when the program attaches.
struct Tensors {
  NamedTensors tensors;
  std::uint64_t earlier = 0;  // tensors in the pieces before
  std::uint64_t total = 0;    // in all pieces
};
std::vector<Tensors> in_pieces(const NamedTensors& tensors);

using Message = std::variant<Status, Holding, RaftMessage, Diverged, ChangeMember, Finished,
                             Tensors, Holdings, Draft, ShardSums>;

std::string serialize(const Message& message);
// Untrusted bytes: throws std::system_error (Errc::malformed) with what is wrong.
Message parse_message(const std::string& bytes);

}  // namespace causeway::diloco
