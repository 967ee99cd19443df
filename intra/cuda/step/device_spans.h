// Outer rounds on a Backend, with the bits of HostSpans. Only encodings, norms and digests reach
// the host: the spans stay in the backend's memory between rounds, and the state's own vectors
// follow when they are settled. Codecs without device code (compression/cuda/device_format.h), and
// segments whose codec may step up, are encoded and decoded on the host.
//
// With `offload`, anchor, momentum, residual and mark stay in the state, and pass through the
// backend's memory segment by segment.
//
// Rounds may have a queue of their own beside the steps'. They meet at the parameters: what reads
// or changes them comes after the steps asked for before it, and before those asked for later.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compression/cuda/device_format.h"
#include "intra/cuda/step/mirror.h"
#include "intra/outer/outer_spans.h"

namespace causeway::intra::cuda {

class DeviceSpans final : public OuterSpans {
 public:
  // `queue`: the backend itself, or one beside it, which has `scratch` to itself then. `params`:
  // the steps'. All outlive this.
  DeviceSpans(const diloco::Layout& layout, Backend& backend, Queue& queue, Mirror& params,
              std::span<float> scratch, bool offload);

  // Until another joins, the spans are those of `state`. `group`: its ranks, for spans in the
  // backend's memory, whose calls leave the steps' queue alone if rounds have another; null if
  // there is one. Both outlive that.
  void join(OuterState& state, Collective* group);
  // All but the parameters.
  void settle();
  // Whether the parameters were changed here since the last call.
  bool take_params_changed() { return std::exchange(params_changed_, false); }

  std::span<const float> settled(Flat which) override;
  using OuterSpans::copy;
  void copy(Flat from, Flat to, Segments segments) override;
  void clear(Flat which, Segments segments) override;
  std::optional<std::size_t> take_delta(Flat base, float beta, Segments segments) override;
  std::vector<CodecPolicy::Encoded> encode(const CodecPolicy& policy,
                                           const compression::EncodeKey& key, Segments segments,
                                           std::vector<std::byte>& out) override;
  void add(const intra::Decoder& payload, float weight, Flat which, Segments segments) override;
  // On the host, as only codecs that drop elements need it.
  void scale(std::span<const float> factors, std::size_t index) override;
  void outer_step(const diloco::OuterOptions& options, std::uint64_t turn,
                  Segments segments) override;
  void mix(float alpha, Segments segments) override;
  std::vector<diloco::Digest> leaves(Flat which, Segments segments) override;
  void complete(Collective& hosts, const SegmentsByRank& segments, Flat which) override;

 private:
  // Segments that lie one after the other.
  struct Run {
    Segments segments;
    std::size_t begin = 0, count = 0;  // elements

    std::size_t chunks() const { return count / compression::kChunk; }
    std::int64_t packs() const { return static_cast<std::int64_t>(count / kPack); }
  };
  // join(a, b): whether segments a and b may be in one. Offloaded, each is a run.
  using Join = std::function<bool(std::size_t, std::size_t)>;
  std::vector<Run> runs(Segments segments, const Join& join) const;
  std::vector<Run> runs(Segments segments) const;
  std::vector<Run> each(const Run& run) const;  // segment by segment

  // Around what reads or changes the parameters, if `which` are they.
  void take_from_steps(Flat which);
  void give_back_to_steps(Flat which);

  bool stays_in_state(Flat which) const;
  Mirror& mirror(Flat which);
  // Where a run is in the backend's memory; after changes there, changed() must be called.
  float* at(Flat which, const Run& run);
  Pack<float>* packs_at(Flat which, const Run& run);
  void changed(Flat which, const Run& run);
  std::vector<float> fetch(Flat which, const Run& run);
  void store(const std::vector<float>& values, Flat which, const Run& run);

  std::uint32_t* clear_bad();
  std::optional<std::size_t> first_bad();  // a chunk of the layout

  template <typename Format>
  void encode_run(const Format& format, std::uint8_t codec, float beta, const Run& run,
                  std::vector<CodecPolicy::Encoded>& encoded, std::vector<std::byte>& out);
  void encode_on_host(const CodecPolicy& policy, const compression::EncodeKey& key, const Run& run,
                      std::vector<CodecPolicy::Encoded>& encoded, std::vector<std::byte>& out);
  std::vector<double> squares(const Run& run);
  template <typename Format>
  void add_run(const Format& format, const intra::Decoder& payload, float weight, Flat which,
               const Run& run, std::uint32_t* bad);

  Backend& steps_;
  Queue& queue_;
  Mirror& params_;
  std::span<float> scratch_;
  bool offload_;
  OuterState* state_ = nullptr;
  Collective* group_ = nullptr;
  bool params_changed_ = false;
  std::array<std::optional<Mirror>, 4> mirrors_;  // of what stays; made when first used
  std::array<DeviceBuffer<float>, 4> passing_;    // of what does not: one segment each
  DeviceBuffer<std::uint8_t> bytes_;              // encodings of a run
  DeviceBuffer<compression::cuda::ChunkNorms> norms_;
  DeviceBuffer<double> sums_;
  DeviceBuffer<SquareBlock> square_blocks_;
  DeviceBuffer<std::uint32_t> bad_;  // of each chunk of the layout, where something was not right
  DeviceBuffer<diloco::Digest> digests_;
};

}  // namespace causeway::intra::cuda
