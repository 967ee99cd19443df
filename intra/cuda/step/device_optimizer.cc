#include "intra/cuda/step/device_optimizer.h"

#include <algorithm>

#include "intra/base/adamw.h"

namespace causeway::intra::cuda {
namespace {

template <typename T>
Pack<T>* packs_at(T* elements, std::size_t offset) {
  return reinterpret_cast<Pack<T>*>(elements + offset);
}

std::int64_t packs_of(std::size_t elements) {
  return static_cast<std::int64_t>(elements / kPack);
}

std::int64_t blocks_of(const Range& part) {
  return SquareSums::blocks_of(packs_of(part.count()));
}

}  // namespace

DeviceOptimizer::DeviceOptimizer(const WorkerOptions& options, const diloco::Layout& layout,
                                 const GradientBuckets& buckets, const TrainingSpans& spans,
                                 Bfloat16* weights, StepResult* result, Backend& backend)
    : options_(options),
      buckets_(buckets),
      spans_(spans),
      weights_(weights),
      result_(result),
      backend_(backend),
      matrices_end_(matrices_end(layout)),
      whole_{{0, layout.size()}},
      update_(reinterpret_cast<UpdateScalars*>(backend.allocate(sizeof(UpdateScalars)))),
      muon_(options, layout, spans, result, backend) {
  // A part has one block that is not full, and a bucket one part, or one for each matrix.
  const std::size_t parts = buckets.all().size() + muon_elements(options.inner, layout).size();
  const std::size_t blocks = static_cast<std::size_t>(blocks_of(whole_.front())) + parts;
  partials_ = reinterpret_cast<double*>(backend.allocate(blocks * sizeof(double)));
}

void DeviceOptimizer::join(OptimizerShare* share, Collective* group) {
  share_ = share;
  group_ = group;
}

std::span<const Range> DeviceOptimizer::parts() const {
  return share_ != nullptr ? share_->parts() : whole_;
}

void DeviceOptimizer::begin(TrainingState& state, float lr) {
  state_ = &state;
  lr_ = lr;
  if (share_ != nullptr) share_->keep();
  const auto load = [&](std::optional<Mirror>& mirror, std::span<const float> moment) {
    if (!mirror || mirror->device().size() != moment.size())
      mirror.emplace(backend_, moment.size());
    mirror->load(moment);
  };
  load(first_moment_, state.optimizer.first_moment());
  load(second_moment_, state.optimizer.second_moment());
  const UpdateScalars update{
      .factors = adamw_factors(options_.inner, state.optimizer_steps, lr),
      .clip_norm = options_.inner.clip_norm,
      .rounding_key = philox_key(mix_bits(options_.train.seed + mix_bits(state.optimizer_steps)))};
  backend_.upload(&update, update_, sizeof update);
}

void DeviceOptimizer::moments_changed() {
  for (auto* mirror : {&first_moment_, &second_moment_}) {
    if (*mirror) (*mirror)->changed_on_host();
  }
}

void DeviceOptimizer::settle(AdamW& moments) {
  if (first_moment_) first_moment_->settle(moments.first_moment());
  if (second_moment_) second_moment_->settle(moments.second_moment());
}

// Returns how many partial sums there are.
std::int64_t DeviceOptimizer::measure_parts() {
  std::int64_t blocks = 0;
  for (const Range& part : parts()) {
    backend_.run(SquareSums{blocks_of(part), packs_of(part.count()),
                            packs_at(spans_.gradients.data(), part.begin), partials_ + blocks});
    blocks += blocks_of(part);
  }
  return blocks;
}

void DeviceOptimizer::measure() {
  backend_.run(Clip{measure_parts(), partials_, update_, result_});
  if (share_ != nullptr) measure_all_ranks();
}

// By way of the host, from each rank's norm.
void DeviceOptimizer::measure_all_ranks() {
  StepResult own;
  backend_.download(result_, &own, sizeof own);
  const double norm = share_->norm(own.norm * own.norm), squares = norm * norm;
  backend_.upload(&squares, partials_, sizeof squares);
  backend_.run(Clip{1, partials_, update_, result_});
}

void DeviceOptimizer::step() {
  Bfloat16* const weights = is_shared_out() ? nullptr : weights_;  // else complete() rounds them
  if (weights == nullptr) {
    step_parts<float>(nullptr);
  } else {
    step_parts(weights);
  }
  if (!muon_.empty()) step_muon(weights);
  first_moment_->changed_on_device();
  second_moment_->changed_on_device();
  if (is_shared_out()) complete();
}

// AdamW's.
template <typename T>
void DeviceOptimizer::step_parts(T* weights) {
  std::size_t first = 0, second = 0;  // moments of the parts before
  for (const Range& part : state_->optimizer.parts()) {
    const bool is_muon = state_->optimizer.is_muon(part);
    if (!is_muon) step_part(part, first, second, weights);
    first += part.count();
    if (!is_muon) second += part.count();
  }
}

template <typename T>
void DeviceOptimizer::step_part(const Range& part, std::size_t first, std::size_t second,
                                T* weights) {
  const std::size_t matrices = std::clamp(matrices_end_, part.begin, part.end) - part.begin;
  backend_.run(AdamWStep<T>{.packs = packs_of(part.count()),
                            .matrix_packs = packs_of(matrices),
                            .first = packs_of(part.begin),
                            .update = update_,
                            .result = result_,
                            .gradients = packs_at(spans_.gradients.data(), part.begin),
                            .params = packs_at(spans_.params.data(), part.begin),
                            .first_moment = packs_at(first_moment_->device().data(), first),
                            .second_moment = packs_at(second_moment_->device().data(), second),
                            .weights = weights != nullptr ? packs_at(weights, part.begin) : nullptr,
                            .dither = dither()});
}

// A matrix of Muon's is stepped by one rank and sent to the others, as on CPUs.
void DeviceOptimizer::step_muon(Bfloat16* weights) {
  std::vector<Range> own = whole_;
  if (group_ != nullptr) own = buckets_.parts(group_->rank(), group_->size());
  muon_.step({.lr = lr_,
              .own = own,
              .moments = state_->optimizer,
              .momentum = packs_at(first_moment_->device().data(), 0),
              .weights = weights,
              .dither = dither()});
}

// The parameters that the others stepped, and the weights of all.
void DeviceOptimizer::complete() {
  backend_.point()->wait();
  if (share_ != nullptr) {
    share_->complete_params(*group_, spans_.params);
  } else {
    state_->intact = false;  // if a rank is lost meanwhile
    buckets_.complete_undivided(*group_, spans_.params);
    state_->intact = true;
  }
  if (weights_ == nullptr) return;
  backend_.run(Round<Bfloat16>{packs_of(spans_.params.size()), packs_at(spans_.params.data(), 0),
                               packs_at(weights_, 0), dither()});
}

const PhiloxKey* DeviceOptimizer::dither() const {
  return options_.train.stochastic_rounding ? &update_->rounding_key : nullptr;
}

}  // namespace causeway::intra::cuda
