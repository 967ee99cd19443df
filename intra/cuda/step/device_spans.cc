#include "intra/cuda/step/device_spans.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace causeway::intra::cuda {
namespace {

// Those that stay on the device or pass through it: neither steps nor the host have them.
constexpr std::array kHeld{Flat::anchor, Flat::momentum, Flat::residual, Flat::mark};

std::size_t place_of(Flat which) {
  const auto found = std::ranges::find(kHeld, which);
  assert(found != kHeld.end());
  return static_cast<std::size_t>(found - kHeld.begin());
}

}  // namespace

DeviceSpans::DeviceSpans(const diloco::Layout& layout, Backend& backend, Queue& queue,
                         Mirror& params, std::span<float> scratch, bool offload)
    : OuterSpans(layout),
      steps_(backend),
      queue_(queue),
      params_(params),
      scratch_(scratch),
      offload_(offload),
      passing_{DeviceBuffer<float>(backend), DeviceBuffer<float>(backend),
               DeviceBuffer<float>(backend), DeviceBuffer<float>(backend)},
      bytes_(backend),
      norms_(backend),
      sums_(backend),
      square_blocks_(backend),
      bad_(backend),
      digests_(backend) {}

void DeviceSpans::join(OuterState& state, Collective* group) {
  state_ = &state;
  group_ = group;
  for (auto& mirror : mirrors_) {
    if (mirror) mirror->changed_on_host();
  }
}

void DeviceSpans::settle() {
  for (const Flat which : kHeld) settled(which);
}

std::span<const float> DeviceSpans::settled(Flat which) {
  std::vector<float>& own = state_->flat(which);
  Mirror* const held = which == Flat::params       ? &params_
                       : mirrors_[place_of(which)] ? &*mirrors_[place_of(which)]
                                                   : nullptr;
  if (held == nullptr) return own;
  if (own.empty()) {
    held->changed_on_host();  // a mark that was given up
  } else {
    held->settle(own);
  }
  return own;
}

// ---- Where segments are ----

void DeviceSpans::take_from_steps(Flat which) {
  if (which != Flat::params) return;
  if (params_.load(state_->params)) params_changed_ = true;
  if (&queue_ != &steps_) queue_.after(*steps_.point());
}

void DeviceSpans::give_back_to_steps(Flat which) {
  if (which == Flat::params && &queue_ != &steps_) steps_.after(*queue_.point());
}

std::vector<DeviceSpans::Run> DeviceSpans::runs(Segments segments, const Join& join) const {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const diloco::Segment& segment = layout().segments()[segments[i]];
    const bool follows = !runs.empty() && runs.back().begin + runs.back().count == segment.offset;
    if (!offload_ && follows && join(segments[i - 1], segments[i])) {
      Run& last = runs.back();
      last.segments = {last.segments.data(), last.segments.size() + 1};
      last.count += segment.count;
    } else {
      runs.push_back({segments.subspan(i, 1), segment.offset, segment.count});
    }
  }
  return runs;
}

std::vector<DeviceSpans::Run> DeviceSpans::runs(Segments segments) const {
  return runs(segments, [](std::size_t, std::size_t) { return true; });
}

std::vector<DeviceSpans::Run> DeviceSpans::each(const Run& run) const {
  return runs(run.segments, [](std::size_t, std::size_t) { return false; });
}

bool DeviceSpans::stays_in_state(Flat which) const {
  return offload_ && which != Flat::params && which != Flat::scratch;
}

Mirror& DeviceSpans::mirror(Flat which) {
  if (which == Flat::params) return params_;
  std::optional<Mirror>& mirror = mirrors_[place_of(which)];
  if (!mirror) mirror.emplace(steps_, queue_, layout().size());
  return *mirror;
}

float* DeviceSpans::at(Flat which, const Run& run) {
  if (which == Flat::scratch) return scratch_.data() + run.begin;
  const std::vector<float>& own = state_->flat(which);
  if (!stays_in_state(which)) {
    Mirror& held = mirror(which);
    if (which != Flat::params) held.load(own);
    return held.device().data() + run.begin;
  }
  float* const passing = passing_[place_of(which)].at_least(diloco::kSegmentElementsMax);
  queue_.upload(own.data() + run.begin, passing, run.count * sizeof(float));
  return passing;
}

Pack<float>* DeviceSpans::packs_at(Flat which, const Run& run) {
  return reinterpret_cast<Pack<float>*>(at(which, run));
}

void DeviceSpans::changed(Flat which, const Run& run) {
  if (which == Flat::scratch) return;
  if (which == Flat::params) params_changed_ = true;
  if (!stays_in_state(which)) return mirror(which).changed_on_device();
  queue_.download(passing_[place_of(which)].at_least(0), state_->flat(which).data() + run.begin,
                  run.count * sizeof(float));
}

std::vector<float> DeviceSpans::fetch(Flat which, const Run& run) {
  std::vector<float> values(run.count);
  queue_.download(at(which, run), values.data(), run.count * sizeof(float));
  return values;
}

void DeviceSpans::store(const std::vector<float>& values, Flat which, const Run& run) {
  queue_.upload(values.data(), at(which, run), run.count * sizeof(float));
  changed(which, run);
}

std::uint32_t* DeviceSpans::clear_bad() {
  const std::size_t chunks = layout().size() / compression::kChunk;
  std::uint32_t* const bad = bad_.at_least(chunks);
  queue_.clear(bad, chunks * sizeof *bad);
  return bad;
}

std::optional<std::size_t> DeviceSpans::first_bad() {
  std::vector<std::uint32_t> bad(layout().size() / compression::kChunk);
  queue_.download(bad_.at_least(0), bad.data(), bad.size() * sizeof bad[0]);
  const auto found = std::ranges::find(bad, 1U);
  if (found == bad.end()) return std::nullopt;
  return static_cast<std::size_t>(found - bad.begin());
}

// ---- What rounds do with them ----

void DeviceSpans::copy(Flat from, Flat to, Segments segments) {
  take_from_steps(from);
  take_from_steps(to);
  state_->flat(to).resize(layout().size());
  for (const Run& run : runs(segments)) {
    queue_.run(CopyPacks{run.packs(), packs_at(from, run), packs_at(to, run)});
    changed(to, run);
  }
  give_back_to_steps(from);
  give_back_to_steps(to);
}

void DeviceSpans::clear(Flat which, Segments segments) {
  take_from_steps(which);
  for (const Run& run : runs(segments)) {
    queue_.clear(at(which, run), run.count * sizeof(float));
    changed(which, run);
  }
  give_back_to_steps(which);
}

std::optional<std::size_t> DeviceSpans::take_delta(Flat base, float beta, Segments segments) {
  take_from_steps(Flat::params);
  std::uint32_t* const bad = clear_bad();
  for (const Run& run : runs(segments)) {
    queue_.run(TakeDelta{run.packs(), beta, packs_at(base, run), packs_at(Flat::params, run),
                         packs_at(Flat::residual, run), packs_at(Flat::scratch, run),
                         bad + run.begin / compression::kChunk});
  }
  give_back_to_steps(Flat::params);
  const std::optional<std::size_t> chunk = first_bad();
  if (!chunk) return std::nullopt;
  const auto after = std::ranges::upper_bound(layout().segments(), *chunk * compression::kChunk, {},
                                              &diloco::Segment::offset);
  return static_cast<std::size_t>(after - layout().segments().begin()) - 1;
}

void DeviceSpans::scale(std::span<const float> factors, std::size_t index) {
  for (const Run& run : runs({&index, 1})) {
    std::vector<float> values = fetch(Flat::scratch, run);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
    store(values, Flat::scratch, run);
  }
}

void DeviceSpans::outer_step(const diloco::OuterOptions& options, std::uint64_t turn,
                             Segments segments) {
  using Kind = diloco::OuterOptions::Kind;
  StepAnchor job{.kind = options.kind, .lr = options.lr, .momentum_decay = options.momentum};
  if (options.kind == Kind::delayed_nesterov) job.delayed = delayed_factors(options, turn);
  for (const Run& run : runs(segments)) {
    job.packs = run.packs();
    job.delta = packs_at(Flat::scratch, run);
    job.anchor = packs_at(Flat::anchor, run);
    job.momentum = packs_at(Flat::momentum, run);
    queue_.run(job);
    changed(Flat::anchor, run);
    changed(Flat::momentum, run);
  }
}

void DeviceSpans::mix(float alpha, Segments segments) {
  take_from_steps(Flat::params);
  for (const Run& run : runs(segments)) {
    queue_.run(Mix{run.packs(), alpha, packs_at(Flat::anchor, run), packs_at(Flat::mark, run),
                   packs_at(Flat::params, run)});
    changed(Flat::mark, run);
    changed(Flat::params, run);
  }
  give_back_to_steps(Flat::params);
}

std::vector<diloco::Digest> DeviceSpans::leaves(Flat which, Segments segments) {
  std::vector<diloco::Digest> leaves;
  for (const Run& run : runs(segments)) {
    const std::size_t count = run.count / diloco::kLeafElements;
    diloco::Digest* const digests = digests_.at_least(count);
    queue_.run(HashLeaves{static_cast<std::int64_t>(count), at(which, run), digests});
    leaves.resize(leaves.size() + count);
    queue_.download(digests, &leaves[leaves.size() - count], count * sizeof *digests);
  }
  return leaves;
}

// By way of the scratch, where the ranks' parts lie one after the other.
void DeviceSpans::complete(Collective& hosts, const SegmentsByRank& segments, Flat which) {
  if (segments.size() == 1) return;
  assert(group_ != nullptr);
  take_from_steps(which);
  std::vector<std::size_t> counts;
  std::vector<std::pair<Run, Pack<float>*>> others;
  std::size_t place = 0;
  for (std::size_t rank = 0; rank < segments.size(); ++rank) {
    const std::size_t begin = place;
    for (const Run& run : runs(segments[rank])) {
      auto* const part = reinterpret_cast<Pack<float>*>(scratch_.data() + place);
      place += run.count;
      if (rank == hosts.rank()) {
        queue_.run(CopyPacks{run.packs(), packs_at(which, run), part});
      } else {
        others.emplace_back(run, part);
      }
    }
    counts.push_back(place - begin);
  }
  queue_.point()->wait();
  group_->all_gather_parts(scratch_.first(place), counts);
  for (const auto& [run, part] : others) {
    queue_.run(CopyPacks{run.packs(), part, packs_at(which, run)});
    changed(which, run);
  }
  give_back_to_steps(which);
}

}  // namespace causeway::intra::cuda
