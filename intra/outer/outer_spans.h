// What outer rounds compute on: the flat spans of a region's outer state, in the state itself
// (HostSpans), or on a device that holds them meanwhile (cuda/step/device_spans.h). Numbers are
// canonical: the same bits wherever they are computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "compression/base/codec.h"
#include "diloco/maths/digest.h"
#include "diloco/maths/layout.h"
#include "diloco/maths/outer.h"
#include "intra/collective/collective.h"
#include "intra/outer/codec_policy.h"
#include "intra/outer/decoder.h"
#include "intra/outer/outer_state.h"

namespace causeway::intra {

// Of the layout, ascending; and those that each rank works on.
using Segments = std::span<const std::size_t>;
using SegmentsByRank = std::vector<std::vector<std::size_t>>;

// A payload, or a sum of them, whose bytes are no valid encoding. The message names it.
struct Undecodable : std::system_error {
  Undecodable(std::size_t its_place, const std::string& name, const std::system_error& why);
  std::size_t place = 0;  // among those that a record applies
};
// Whether an error of decoding says that of the bytes.
bool is_undecodable(const std::error_code& code);

class OuterSpans {
 public:
  // `layout` outlives this.
  explicit OuterSpans(const diloco::Layout& layout);
  virtual ~OuterSpans() = default;
  OuterSpans(const OuterSpans&) = delete;
  OuterSpans& operator=(const OuterSpans&) = delete;

  const diloco::Layout& layout() const { return *layout_; }
  Segments everything() const { return everything_; }

  // The state's own vector, which follows what was computed elsewhere.
  virtual std::span<const float> settled(Flat which) = 0;

  // to <- from. The first copy to `mark`, of everything, gives the state one.
  virtual void copy(Flat from, Flat to, Segments segments) = 0;
  void copy(Flat from, Flat to) { copy(from, to, everything_); }
  // which <- 0
  virtual void clear(Flat which, Segments segments) = 0;

  // scratch <- base - params. Returns the first of the segments, if any, in which
  // beta * residual + scratch is not finite; the scratch is unspecified then.
  virtual std::optional<std::size_t> take_delta(Flat base, float beta, Segments segments) = 0;
  // As CodecPolicy::encode, of the residual and of what take_delta() left in the scratch. `key`:
  // without its first element.
  virtual std::vector<CodecPolicy::Encoded> encode(const CodecPolicy& policy,
                                                   const compression::EncodeKey& key,
                                                   Segments segments,
                                                   std::vector<std::byte>& out) = 0;
  // which += weight * Q. Throws for a damaged segment; `which` may then hold part of the sum.
  virtual void add(const Decoder& payload, float weight, Flat which, Segments segments) = 0;
  // diloco::outer_step of scratch, anchor and momentum.
  virtual void outer_step(const diloco::OuterOptions& options, std::uint64_t turn,
                          Segments segments) = 0;
  struct StepLeaves {
    std::vector<diloco::Digest> anchor, momentum;
  };
  // The same, with the leaves of what anchor and momentum are then.
  virtual StepLeaves outer_step_and_leaves(const diloco::OuterOptions& options, std::uint64_t turn,
                                           Segments segments);
  // diloco::mix of anchor, mark and params.
  virtual void mix(float alpha, Segments segments) = 0;

  // The leaves of diloco/maths/digest.h, of one segment after the other.
  virtual std::vector<diloco::Digest> leaves(Flat which, Segments segments) = 0;

  // On entry every rank's own segments are right; on return all of them, everywhere. `hosts`: the
  // ranks. The scratch may be used.
  virtual void complete(Collective& hosts, const SegmentsByRank& segments, Flat which) = 0;

  // scratch <- sum of weight * Q over the terms, in their order. Throws Undecodable for a damaged
  // one; the scratch is unspecified then.
  struct Term {
    const Decoder* payload = nullptr;
    float weight = 0;
    std::string name;       // "what us contributed to round 7"
    std::size_t place = 0;  // among those that a record applies
  };
  virtual void sum(std::span<const Term> terms, Segments segments);
  // scratch *= factors, which are those of segment `index`.
  virtual void scale(std::span<const float> factors, std::size_t index) = 0;

  // What this rank encoded last: kept, as touching fresh memory costs more than filling it.
  std::vector<std::byte> encoding;

 protected:
  void add_term(const Term& term, Segments segments);
  // That of segment `index`.
  compression::EncodeKey key_of(compression::EncodeKey key, std::size_t index) const;

 private:
  const diloco::Layout* layout_;
  std::vector<std::size_t> everything_;
};

// In the state itself, on the CPU.
class HostSpans final : public OuterSpans {
 public:
  // Both outlive this.
  HostSpans(const diloco::Layout& layout, OuterState& state) : OuterSpans(layout), state_(state) {}

  std::span<const float> settled(Flat which) override { return state_.flat(which); }
  using OuterSpans::copy;
  void copy(Flat from, Flat to, Segments segments) override;
  void clear(Flat which, Segments segments) override;
  // Piece by piece, whose norm so is taken while it is in a cache.
  std::optional<std::size_t> take_delta(Flat base, float beta, Segments segments) override;
  std::vector<CodecPolicy::Encoded> encode(const CodecPolicy& policy,
                                           const compression::EncodeKey& key, Segments segments,
                                           std::vector<std::byte>& out) override;
  void add(const Decoder& payload, float weight, Flat which, Segments segments) override;
  // Segment by segment, which so stays in a cache.
  void sum(std::span<const Term> terms, Segments segments) override;
  void scale(std::span<const float> factors, std::size_t index) override;
  void outer_step(const diloco::OuterOptions& options, std::uint64_t turn,
                  Segments segments) override;
  // Piece by piece, which so is hashed while it is in a cache.
  StepLeaves outer_step_and_leaves(const diloco::OuterOptions& options, std::uint64_t turn,
                                   Segments segments) override;
  void mix(float alpha, Segments segments) override;
  std::vector<diloco::Digest> leaves(Flat which, Segments segments) override;
  void complete(Collective& hosts, const SegmentsByRank& segments, Flat which) override;

 private:
  struct Piece;
  std::span<float> part(Flat which, std::size_t index);
  std::span<float> part(Flat which, const Piece& piece);
  std::vector<Piece> pieces(Segments segments) const;
  static std::size_t leaves_of(const std::vector<Piece>& pieces);
  bool take_delta(Flat base, float beta, const Piece& piece);
  void step(const diloco::OuterOptions& options, std::uint64_t turn, const Piece& piece);

  OuterState& state_;
  std::vector<double> delta_squares_;  // of each segment, as global_norm() adds them
};

}  // namespace causeway::intra
