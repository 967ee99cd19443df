#include "intra/outer_round.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "compression/feedback.h"
#include "compression/payload.h"
#include "diloco/error.h"
#include "intra/error.h"
#include "intra/float_mode.h"
#include "intra/together.h"

namespace causeway::intra {

// What precedes the bytes of one segment when they are gathered.
struct SegmentHead {
  double delta_squared = 0;
  compression::EncodeStats stats{};
  std::uint64_t bytes = 0;
  std::uint8_t codec = 0;
  bool stepped_up = false;
};

namespace {

using compression::Codec;
using compression::EncodedSegment;
using compression::Payload;

// The payload's segments must be exactly those of the layout.
void check_shape(const Payload& payload, const diloco::Layout& layout) {
  const auto refuse = [](const std::string& why) {
    throw std::system_error(compression::Errc::malformed, why);
  };
  if (payload.segments.size() != layout.segments().size()) {
    refuse("has " + std::to_string(payload.segments.size()) + " segments where the model has " +
           std::to_string(layout.segments().size()));
  }
  for (std::size_t i = 0; i < payload.segments.size(); ++i) {
    const EncodedSegment& segment = payload.segments[i];
    if (segment.index != i || segment.element_count != layout.segments()[i].count ||
        segment.codec >= payload.codec_specs.size()) {
      refuse("segment " + std::to_string(i) + " is not the model's");
    }
  }
}

std::vector<std::unique_ptr<Codec>> codecs_of(const Payload& payload) {
  std::vector<std::unique_ptr<Codec>> codecs;
  for (const std::string& spec : payload.codec_specs)
    codecs.push_back(compression::make_codec(spec));
  return codecs;
}

}  // namespace

OuterRound::OuterRound(const Place& place, const CodecOptions& codec,
                       const diloco::OuterOptions& outer, const diloco::Layout& layout)
    : place_(place),
      feedback_(codec.feedback),
      policy_(codec, layout),
      outer_(outer),
      ownership_(layout, place.rank, place.world) {}

std::vector<TensorEncoding> OuterRound::encode(Collective& collective, TrainingState& state) const {
  restore_float_mode();
  state.intact = false;
  std::vector<std::byte> own;
  together(collective, "encoding", [&] { own = encode_own(state); });
  std::vector<TensorEncoding> encodings = assemble(collective.all_gather(own), state);
  state.intact = true;
  return encodings;
}

// For each own segment: its head, then its encoding.
std::vector<std::byte> OuterRound::encode_own(TrainingState& state) const {
  std::vector<std::byte> own;
  diloco::pseudo_gradient(state.anchor, state.params, state.scratch);
  for (const std::size_t index : ownership_.mine()) {
    const auto delta = ownership_.segment(index, std::span<const float>(state.scratch));
    const std::size_t head_at = own.size();
    own.resize(head_at + sizeof(SegmentHead));
    const auto encoded = policy_.encode(
        index, delta, ownership_.segment(index, std::span<float>(state.residual)), own,
        {.seed = place_.seed,
         .round = static_cast<std::uint32_t>(state.version),
         .region = place_.region_index,
         .first_element = ownership_.layout().segments()[index].offset});
    const double norm = global_norm(delta);
    const SegmentHead head{norm * norm, encoded.stats, own.size() - head_at - sizeof(SegmentHead),
                           encoded.codec, encoded.stepped_up};
    std::memcpy(own.data() + head_at, &head, sizeof head);
  }
  return own;
}

// Every rank assembles the same payload: any of them may have to return its part to the residual.
std::vector<TensorEncoding> OuterRound::assemble(std::span<const std::vector<std::byte>> gathered,
                                                 TrainingState& state) const {
  const auto segments = ownership_.layout().segments();
  std::vector<EncodedSegment> encoded(segments.size());
  std::vector<SegmentHead> heads(segments.size());
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    std::span<const std::byte> rest = gathered[rank];
    for (const std::size_t index : ownership_.of(rank)) {
      const diloco::Segment& segment = segments[index];
      SegmentHead& head = heads[index];
      assert(rest.size() >= sizeof head);
      std::memcpy(&head, rest.data(), sizeof head);
      rest = rest.subspan(sizeof head);
      assert(rest.size() >= head.bytes);
      encoded[index] = {static_cast<std::uint32_t>(index),
                        static_cast<std::uint32_t>(segment.count), head.codec,
                        rest.first(head.bytes)};
      rest = rest.subspan(head.bytes);
    }
    assert(rest.empty());
  }
  state.payload = compression::write_payload(policy_.specs(), encoded);
  return report(heads, state);
}

// In canonical order, so that the sums do not depend on the number of ranks either.
std::vector<TensorEncoding> OuterRound::report(std::span<const SegmentHead> heads,
                                               TrainingState& state) const {
  const diloco::Layout& layout = ownership_.layout();
  std::vector<TensorEncoding> encodings;
  double delta_squared = 0;
  compression::EncodeStats total;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    delta_squared += heads[i].delta_squared;
    total += heads[i].stats;
    const diloco::Segment& segment = layout.segments()[i];
    const std::string name = segment.kind == diloco::SegmentClass::vector
                                 ? "vectors"
                                 : layout.tensor_at(segment.offset).spec.name;
    if (encodings.empty() || encodings.back().tensor != name)
      encodings.push_back({.tensor = name, .spec = policy_.specs()[heads[i].codec]});
    TensorEncoding& encoding = encodings.back();
    encoding.stats += heads[i].stats;
    encoding.bytes += heads[i].bytes;
    if (!heads[i].stepped_up) continue;
    encoding.stepped_up = true;
    encoding.spec = policy_.specs()[heads[i].codec];
  }
  state.delta_norm = std::sqrt(delta_squared);
  state.error_norm = std::sqrt(total.error_norm_squared);
  return encodings;
}

Fate OuterRound::apply(Collective& collective, const diloco::CommitRecord& record,
                       std::span<const std::span<const std::byte>> payloads,
                       TrainingState& state) const {
  assert(record.round == state.version && payloads.size() == record.participants.size());
  if (record.state != state.digest) {
    throw std::system_error(diloco::Errc::divergence,
                            "round " + std::to_string(record.round) + " was decided for state " +
                                diloco::to_hex(record.state).substr(0, 12) + " but region " +
                                place_.region + " holds " +
                                diloco::to_hex(state.digest).substr(0, 12));
  }
  restore_float_mode();
  together(collective, "decoding", [&] { reduce(record, payloads, state.scratch); });

  state.intact = false;
  Fate fate = Fate::none;
  together(collective, "settling the own contribution", [&] { fate = settle(record, state); });
  for (const std::size_t index : ownership_.mine()) {
    diloco::outer_step(outer_, ownership_.segment(index, std::span<const float>(state.scratch)),
                       ownership_.segment(index, std::span<float>(state.anchor)),
                       ownership_.segment(index, std::span<float>(state.momentum)));
  }
  const diloco::Digest anchor_root = ownership_.root(collective, state.anchor);
  const diloco::Digest momentum_root = ownership_.root(collective, state.momentum);
  ownership_.complete(collective, state.anchor);
  state.params = state.anchor;
  state.digest = diloco::state_digest(anchor_root, momentum_root);
  state.payload.clear();
  state.contributed = false;
  state.step_in_round = 0;
  ++state.version;
  state.intact = true;
  return fate;
}

void OuterRound::reduce(const diloco::CommitRecord& record,
                        std::span<const std::span<const std::byte>> payloads,
                        std::span<float> sum) const {
  for (const std::size_t index : ownership_.mine()) {
    const auto part = ownership_.segment(index, sum);
    std::fill(part.begin(), part.end(), 0.0F);
  }
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const diloco::Participant& participant = record.participants[i];
    try {
      const Payload payload = compression::read_payload(payloads[i]);
      check_shape(payload, ownership_.layout());
      const auto codecs = codecs_of(payload);
      for (const std::size_t index : ownership_.mine()) {
        const EncodedSegment& segment = payload.segments[index];
        codecs[segment.codec]->decode_add(segment.bytes, participant.weight,
                                          ownership_.segment(index, sum));
      }
    } catch (const std::system_error& error) {
      throw std::system_error(error.code(), "the payload of region " + participant.region +
                                                " in round " + std::to_string(record.round) + ": " +
                                                error.what());
    }
  }
}

Fate OuterRound::settle(const diloco::CommitRecord& record, TrainingState& state) const {
  const auto own =
      std::find_if(record.participants.begin(), record.participants.end(),
                   [&](const auto& participant) { return participant.region == place_.region; });
  if (own != record.participants.end()) {
    if (!state.payload.empty() && diloco::sha256(state.payload) == own->payload.hash)
      return Fate::delivered;
    // An earlier life of this region sent it; what it left in its residual is not in ours.
    std::fill(state.residual.begin(), state.residual.end(), 0.0F);
    return Fate::forgotten;
  }
  if (state.payload.empty()) return state.step_in_round > 0 ? Fate::dropped : Fate::none;
  if (!feedback_) return Fate::dropped;
  return_own(state);
  return Fate::returned;
}

void OuterRound::return_own(TrainingState& state) const {
  const Payload payload = compression::read_payload(state.payload);
  check_shape(payload, ownership_.layout());
  const auto codecs = codecs_of(payload);
  for (const std::size_t index : ownership_.mine()) {
    const EncodedSegment& segment = payload.segments[index];
    compression::return_to_residual(*codecs[segment.codec], segment.bytes,
                                    ownership_.segment(index, std::span<float>(state.residual)));
  }
}

}  // namespace causeway::intra
