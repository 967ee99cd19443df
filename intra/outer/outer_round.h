// The worker's side of one outer round, on the segments that this rank owns.
//
//   encode   delta = base - params, the base being the anchor or the mark; p = beta * residual +
//            delta; payload = Q(p), in flight from now on; residual <- p - Q(p)
//   apply    sum = weighted payloads in the record's order, late ones among them; outer step;
//            every rank gets the anchor; params and mark follow as diloco/maths/outer.h says
//
// Both concern the segments of one fragment, whose turn it is in the round.
//
// Numbers here are canonical: the same for any number of ranks, on any machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compression/base/codec.h"
#include "diloco/log/record.h"
#include "diloco/maths/outer.h"
#include "intra/collective/collective.h"
#include "intra/outer/codec_policy.h"
#include "intra/outer/contribution_fate.h"
#include "intra/outer/outer_spans.h"
#include "intra/outer/outer_state.h"
#include "intra/outer/ownership.h"

namespace causeway::intra {

// How one tensor of a contribution was encoded; all vectors count as one, called "vectors".
struct TensorEncoding {
  std::string tensor;
  std::string spec;                  // the highest that a segment of it needed
  compression::EncodeStats stats{};  // of p = delta + what was left over, and of what is left now
  std::uint64_t bytes = 0;
  bool stepped_up = false;  // the error bound made it take more than its own codec
};

// How encode() encoded its contribution.
struct Encoding {
  std::uint32_t part = 0;  // of the round: state.own(part)
  std::vector<TensorEncoding> tensors;
  std::string not_finite;  // the first tensor that made it sit out; empty: none
};

// One thread at a time.
class OuterRound {
 public:
  struct Place {
    std::string region;
    std::uint32_t region_index = 0;  // in sorted-name order
    std::size_t rank = 0, world = 1;
    std::uint64_t seed = 1;  // the run's
  };
  // What an inner step of the region is made of.
  struct Batch {
    std::uint64_t samples = 0, tokens = 0;
  };

  // Throws what CodecPolicy and Fragments throw. `layout` outlives this.
  OuterRound(const Place& place, const CodecOptions& codec, const diloco::OuterOptions& outer,
             const diloco::OverlapOptions& overlap, const diloco::Layout& layout);

  const Ownership& ownership() const { return ownership_; }
  const diloco::OverlapOptions& overlap() const { return overlap_; }

  // Makes a contribution of the open work: puts it in flight and updates the residual, on every
  // rank alike. A delta that is not finite sits out instead: no payload, the residual as it was,
  // and the parameters back at the base. `spans`: the state's, wherever they are.
  Encoding encode(Collective& collective, const Batch& batch, OuterState& state,
                  OuterSpans& spans) const;
  // Its two halves. With OverlapOptions::encodes_beside_steps() a region may take inner steps
  // between them, if those leave the spans' scratch alone, and do nothing else.
  Encoding take_delta(Collective& collective, const Batch& batch, OuterState& state,
                      OuterSpans& spans) const;
  void encode_delta(Collective& collective, OuterState& state, OuterSpans& spans,
                    Encoding& encoding) const;

  // Takes `state` from version record.round to the next, and returns what became of the region's
  // own work. payloads[i] is that of applied_blobs(record)[i] and is untrusted: one that cannot be
  // decoded counts as 0 (reduce()). Throws diloco::Errc::divergence if the record was made for
  // another state than this one.
  std::vector<Outcome> apply(Collective& collective, const diloco::CommitRecord& record,
                             std::span<const std::span<const std::byte>> payloads,
                             OuterState& state, OuterSpans& spans) const;

  // The same in the state itself.
  Encoding encode(Collective& collective, const Batch& batch, OuterState& state) const;
  std::vector<Outcome> apply(Collective& collective, const diloco::CommitRecord& record,
                             std::span<const std::span<const std::byte>> payloads,
                             OuterState& state) const;

 private:
  using Variant = diloco::OverlapOptions::Variant;

  bool synchronous() const { return overlap_.variant == Variant::synchronous; }
  std::size_t fragment_of(const OuterState& state) const {
    return ownership_.fragments().of_round(state.version);
  }
  std::string first_not_finite(Collective& collective, std::optional<std::size_t> own) const;
  void encode_own(const OuterState& state, std::uint32_t part, OuterSpans& spans) const;
  void go_on_from(Collective& collective, OuterState& state, OuterSpans& spans) const;
  void start_ahead(Collective& collective, const OuterState& state, OuterSpans& spans) const;
  std::vector<TensorEncoding> assemble(std::span<const std::span<const std::byte>> by_rank,
                                       std::size_t fragment, InFlight& made) const;
  std::vector<TensorEncoding> report(Segments segments, std::span<const CodecPolicy::Encoded> heads,
                                     diloco::Contribution& made) const;
  void check_state(const diloco::CommitRecord& record, const OuterState& state) const;
  std::vector<Outcome> settle_own(const diloco::CommitRecord& record, OuterState& state,
                                  OuterSpans& spans) const;
  bool add_own(const InFlight& own, float weight, Flat which, OuterSpans& spans) const;
  OuterSpans::StepLeaves step(const diloco::CommitRecord& record, Segments segments,
                              OuterSpans& spans) const;
  void follow_anchor(OuterState& state, bool drop_open_work, OuterSpans& spans) const;

  Place place_;
  bool feedback_;
  CodecPolicy policy_;
  diloco::OuterOptions outer_;
  diloco::OverlapOptions overlap_;
  Ownership ownership_;
};

}  // namespace causeway::intra
