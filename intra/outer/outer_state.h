// What a region carries from one outer round to the next, whatever it is that it trains.
//
// Every rank holds all of it, so that one that is lost takes nothing along: what a rank computes
// for its own segments (ownership.h) it gives to the others at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/files/sealed_bytes.h"
#include "diloco/log/record.h"
#include "diloco/maths/digest.h"
#include "diloco/maths/layout.h"

namespace causeway::intra {

// What a region contributed to a round: the payload's bytes and their hash, which a thread of its
// own computes while the worker goes on.

class OwnPayload {
 public:
  OwnPayload() = default;  // none
  explicit OwnPayload(diloco::SealedBytes bytes);

  bool empty() const { return sealed_.empty(); }
  const diloco::SealedBytes& sealed() const { return sealed_; }
  std::span<const std::byte> bytes() const { return sealed_.bytes(); }
  // Its tree hash; waits for it. There must be a payload.
  const diloco::Digest& hash() const { return hash_.get(); }

 private:
  diloco::SealedBytes sealed_;
  std::shared_future<diloco::Digest> hash_;
};

// A contribution of this region whose outcome is not known yet.
struct InFlight {
  diloco::Contribution contribution;  // without its payload's id
  // Empty: nothing can be returned from it, because it sits out, an earlier life of this worker
  // made it, the region's state was replaced since, or it is still being encoded.
  OwnPayload payload;
  bool stored = false;  // the coordinator has it (rank 0 knows)

  // The contribution as records list it: with its payload's id, which this may wait for.
  diloco::Contribution identified() const;
};

// Inner steps that no contribution holds yet.
struct Work {
  std::uint64_t data_cursor = 0;  // the region's sample cursor at their start
  std::uint32_t steps = 0;
  double compute_s = 0;  // that they took
};

// The spans of an OuterState.
enum class Flat : std::uint8_t { params, anchor, momentum, residual, mark, scratch };

// Which spans a run uses. The others are empty, and take no memory.
struct Kept {
  bool outer = true;     // anchor and outer momentum
  bool residual = true;  // with error feedback
  bool moments = true;   // of the inner optimizer, for a state that has them
};

struct OuterState {
  explicit OuterState(const diloco::Layout& layout, const Kept& kept = {});

  std::vector<float> params;    // what inner steps change
  std::vector<float> anchor;    // of `version`
  std::vector<float> momentum;  // of the outer optimizer
  std::vector<float> residual;  // error feedback; may be empty where there is none
  // Where the open work began, if that is not the anchor: a region that is cut off trains on from
  // the parameters that it contributed. Empty otherwise.
  std::vector<float> mark;
  // The Merkle trees over anchor and momentum as of `version`.
  struct Tree {
    std::vector<diloco::Digest> leaves;  // empty: to be computed
    diloco::Digest root{};
  };
  struct Trees {
    Tree anchor, momentum;
  } trees;
  // Gradients in an inner step; delta while a round is encoded, the weighted sum while it is
  // applied.
  std::vector<float> scratch;

  diloco::Round version = 0;
  diloco::Digest digest{};              // of anchor and momentum
  std::string run_id;                   // empty: fresh weights, of no run yet
  std::string region;                   // whose state it is; empty: nobody asks
  std::optional<double> held_out_loss;  // of the anchor, if it was evaluated
  // confirmed_share.h, of the newest record that told; at first all learn alike.
  float confirmed_share = 1;
  Work work;
  std::vector<InFlight> in_flight;  // ascending (round, part)
  // Of the newest state on disk, if this process wrote it or read all of it: otherwise it may be
  // damaged.
  std::optional<diloco::Round> on_disk;

  std::vector<float>& flat(Flat which);

  // False while an outer round or a restore is half way: if that fails, only the state on disk is
  // good.
  bool intact = true;

  // The contribution to round `version` with this part; null: none was made.
  InFlight* own(std::uint32_t part);
  const InFlight* own(std::uint32_t part) const;
  bool contributed() const;  // to round `version`, any part
  // To round `version`, and the coordinator lacks it; false if it cannot be handed over either.
  bool is_undelivered(const InFlight& made) const;
  std::uint32_t next_part() const;      // the first one of round `version` that was not made
  std::uint32_t step_in_round() const;  // inner steps since `version`, contributed or not

  void put_in_flight(InFlight made);
  // A contribution to round `version` that the coordinator lost and that cannot be sent again.
  void drop_own(std::uint32_t part);

  // The coordinator has a contribution to round `version` that this state knows nothing of, as it
  // was made after the state was saved: what it left in the residual can only be dropped, with all
  // steps since.
  void forget_earlier_life(const std::string& own_region);

  // The state of another version takes the place of this one: `anchor`, `momentum` and `digest`
  // have been set. Parameters follow; residual and open work are dropped; what is in flight may
  // still be listed, but is not returned any more.
  void adopt(diloco::Round new_version);
};

// State digest of whole spans.
diloco::Digest whole_digest(const OuterState& state);

// What all ranks of a region must agree on, apart from the spans: open work and what is in flight.
diloco::Digest open_digest(const OuterState& state);

// The parameter tensors, a line each: name, then extents, a space before each.
std::string describe_tensors(const diloco::Layout& layout);
// The layout of that text; none if it is not the one with this fingerprint.
std::optional<diloco::Layout> parse_tensors(const std::string& description,
                                            const std::string& fingerprint);
// Of that text: equal fingerprints, equal layouts.
std::string fingerprint(const diloco::Layout& layout);

}  // namespace causeway::intra
