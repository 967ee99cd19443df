// The worker's side of one outer round (design.md section 3, rows 5-6 and 11-13), on the segments
// that this rank owns.
//
//   encode   delta = anchor - params; p = beta * residual + delta
//            payload = Q(p); residual <- p - Q(p)
//   apply    sum = weighted payloads in region order; outer step
//            every rank gets the whole anchor; params <- anchor
//
// Numbers here are canonical: the same for any number of ranks, on any machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "diloco/outer.h"
#include "diloco/record.h"
#include "intra/codec_policy.h"
#include "intra/collective.h"
#include "intra/ownership.h"
#include "intra/training_state.h"
#include "intra/worker_loop.h"

namespace causeway::intra {

// What a commit record made of the region's own work in that round.
enum class Fate {
  none,       // there was none
  delivered,  // listed
  returned,   // encoded but not listed: back in the residual, to be sent later
  dropped,    // lost: cut short, or not listed and without feedback
  forgotten,  // listed, but sent before a restart: what that left in the residual is lost
};

// How one tensor of a contribution was encoded; all vectors count as one, called "vectors".
struct TensorEncoding {
  std::string tensor;
  std::string spec;                  // the highest that a segment of it needed
  compression::EncodeStats stats{};  // of p = delta + what was left over, and of what is left now
  std::uint64_t bytes = 0;
  bool stepped_up = false;  // the error bound made it take more than its own codec
};

struct SegmentHead;  // of outer_round.cc

class OuterRound {
 public:
  struct Place {
    std::string region;
    std::uint32_t region_index = 0;  // in sorted-name order
    std::size_t rank = 0, world = 1;
    std::uint64_t seed = 1;  // the run's
  };

  // Throws what CodecPolicy throws. `layout` outlives this.
  OuterRound(const Place& place, const CodecOptions& codec, const diloco::OuterOptions& outer,
             const diloco::Layout& layout);

  const Ownership& ownership() const { return ownership_; }

  // Fills payload and norms of `state`, on every rank alike, and updates the residual. Returns how
  // each tensor was encoded, on every rank alike.
  std::vector<TensorEncoding> encode(Collective& collective, TrainingState& state) const;

  // Takes `state` from version record.round to the next. payloads[i] belongs to participants[i] and
  // is untrusted: a bad one throws std::system_error naming the region, with the anchor untouched.
  // Throws diloco::Errc::divergence if the record was made for another state than this one.
  Fate apply(Collective& collective, const diloco::CommitRecord& record,
             std::span<const std::span<const std::byte>> payloads, TrainingState& state) const;

 private:
  std::vector<std::byte> encode_own(TrainingState& state) const;
  std::vector<TensorEncoding> assemble(std::span<const std::vector<std::byte>> gathered,
                                       TrainingState& state) const;
  std::vector<TensorEncoding> report(std::span<const SegmentHead> heads,
                                     TrainingState& state) const;
  void reduce(const diloco::CommitRecord& record,
              std::span<const std::span<const std::byte>> payloads, std::span<float> sum) const;
  Fate settle(const diloco::CommitRecord& record, TrainingState& state) const;
  void return_own(TrainingState& state) const;

  Place place_;
  bool feedback_;
  CodecPolicy policy_;
  diloco::OuterOptions outer_;
  Ownership ownership_;
};

}  // namespace causeway::intra
