#include "intra/base/adamw.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "compression/base/codec.h"

namespace causeway::intra {
namespace {

// Matrices are padded to whole chunks (diloco/maths/layout.h).
Range padded(const diloco::PlacedTensor& matrix) {
  constexpr std::size_t kChunk = compression::kChunk;
  return {matrix.offset, matrix.offset + (matrix.spec.count() + kChunk - 1) / kChunk * kChunk};
}

Range span_of(const std::vector<MuonMatrix>& matrices) {
  if (matrices.empty()) return {};
  return {matrices.front().elements.begin, matrices.back().elements.end};
}

// One block is one task of the loops over a flat span: small enough to balance, large enough to
// stream.
constexpr std::size_t kBlock = std::size_t{1} << 16;

// The loop is bound by memory once it is vectorised: 16 bytes are read and 12 written per element.
void step_elements(const AdamWFactors& f, float decay, std::size_t count,
                   const float* __restrict gradients, float* __restrict params,
                   float* __restrict first, float* __restrict second) {
  for (std::size_t i = 0; i < count; ++i) {
    adamw_element(f, decay, gradients[i], params[i], first[i], second[i]);
  }
}

}  // namespace

float learning_rate(const InnerOptions& options, std::uint64_t step, std::uint64_t total_steps) {
  using Schedule = InnerOptions::Schedule;
  const double lr = options.lr;
  if (step < options.warmup_steps) {
    return static_cast<float>(lr * static_cast<double>(step + 1) /
                              static_cast<double>(options.warmup_steps));
  }
  if (options.schedule == Schedule::constant || total_steps <= options.warmup_steps + 1) {
    return options.lr;
  }
  // 0 at the end of the warm-up, 1 at the last step.
  const double progress =
      std::min(1.0, static_cast<double>(step - options.warmup_steps) /
                        static_cast<double>(total_steps - 1 - options.warmup_steps));
  const double remaining = options.schedule == Schedule::linear
                               ? 1 - progress
                               : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  const double final_lr = lr * options.lr_final_fraction;
  return static_cast<float>(final_lr + (lr - final_lr) * remaining);
}

std::vector<MuonMatrix> muon_matrices(const InnerOptions& options, const diloco::Layout& layout) {
  std::vector<MuonMatrix> matrices;
  if (options.optimizer != InnerOptions::Optimizer::muon) return matrices;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    const std::string& name = tensor.spec.name;
    const std::vector<std::int64_t>& shape = tensor.spec.shape;
    const bool in_block = name.starts_with("transformer.h.") || name.starts_with("model.layers.");
    if (in_block && shape.size() == 2)
      matrices.push_back({.elements = padded(tensor), .out = shape[0], .in = shape[1]});
  }
  return matrices;
}

AdamW::AdamW(const InnerOptions& options, const diloco::Layout& layout)
    : options_(options),
      decay_end_(matrices_end(layout)),
      size_(layout.size()),
      muon_(span_of(muon_matrices(options, layout))),
      parts_(all_parts()),
      first_moment_(size_),
      second_moment_(size_ - muon_.count()) {}

std::vector<Range> AdamW::all_parts() const {
  std::vector<Range> parts;
  for (const Range& part : {Range{0, muon_.begin}, muon_, Range{muon_.end, size_}}) {
    if (part.count() > 0) parts.push_back(part);
  }
  return parts;
}

// Among all second moments; Muon's matrices have none.
std::optional<std::size_t> AdamW::second_moment_of_all(const Range& part) const {
  if (is_muon(part)) return std::nullopt;
  return part.begin < muon_.end ? part.begin : part.begin - muon_.count();
}

std::size_t AdamW::first_moment_at(const Range& range) const {
  std::size_t before = 0;
  for (const Range& part : parts_) {
    if (part.begin <= range.begin && range.end <= part.end)
      return before + range.begin - part.begin;
    before += part.count();
  }
  assert(!"elements whose moments it has");
  return 0;
}

void AdamW::keep(std::vector<Range> parts) {
  assert(has_all());
  // One moment after the other: they are never both there twice.
  const auto keep = [&parts](std::vector<float>& moment, const auto& place_of) {
    std::size_t count = 0;
    for (const Range& part : parts) count += place_of(part) ? part.count() : 0;
    std::vector<float> kept;
    kept.reserve(count);
    for (const Range& part : parts) {
      const std::optional<std::size_t> from = place_of(part);
      if (from) kept.insert(kept.end(), &moment[*from], &moment[*from] + part.count());
    }
    moment = std::move(kept);
  };
  keep(first_moment_, [](const Range& part) { return std::optional(part.begin); });
  keep(second_moment_, [this](const Range& part) { return second_moment_of_all(part); });
  parts_ = std::move(parts);
}

void AdamW::widen() {
  if (has_all()) return;
  const auto widen = [this](std::vector<float>& moment, std::size_t size, const auto& place_of) {
    std::vector<float> all(size);
    std::size_t from = 0;
    for (const Range& part : parts_) {
      const std::optional<std::size_t> place = place_of(part);
      if (!place) continue;
      std::copy_n(&moment[from], part.count(), &all[*place]);
      from += part.count();
    }
    moment = std::move(all);
  };
  widen(first_moment_, size_, [](const Range& part) { return std::optional(part.begin); });
  widen(second_moment_, size_ - muon_.count(),
        [this](const Range& part) { return second_moment_of_all(part); });
  parts_ = all_parts();
}

AdamWFactors adamw_factors(const InnerOptions& options, std::uint64_t step, float lr) {
  const double t = static_cast<double>(step) + 1;
  const double beta1 = options.beta1, beta2 = options.beta2;
  return {.beta1 = options.beta1,
          .beta2 = options.beta2,
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .gradient_scale = 1,
          .step_size = static_cast<float>(lr / (1 - std::pow(beta1, t))),
          .inverse_root_bc2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t))),
          .epsilon = options.epsilon,
          .matrix_decay = static_cast<float>(1 - static_cast<double>(lr) * options.weight_decay)};
}

void AdamW::step(std::uint64_t step, float lr, float gradient_scale, std::span<float> params,
                 std::span<const float> gradients, const Stepped& stepped) {
  assert(params.size() == size_ && gradients.size() == size_);
  AdamWFactors factors = adamw_factors(options_, step, lr);
  factors.gradient_scale = gradient_scale;
  std::size_t first = 0, second = 0;  // of the parts before
  for (const Range& part : parts_) {
    if (!is_muon(part)) {
      step_part(factors, part, first, second, params, gradients, stepped);
      second += part.count();
    }
    first += part.count();
  }
}

void AdamW::step_part(const AdamWFactors& factors, const Range& part, std::size_t first,
                      std::size_t second, std::span<float> params, std::span<const float> gradients,
                      const Stepped& stepped) {
  const auto step = [&](std::size_t from, std::size_t to, float decay) {
    const std::size_t within = from - part.begin;
    step_elements(factors, decay, to - from, gradients.data() + from, params.data() + from,
                  first_moment_.data() + first + within, second_moment_.data() + second + within);
  };
  const std::size_t blocks = (part.count() + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (std::size_t block = 0; block < blocks; ++block) {
    // The block in which the matrices end is done in two parts.
    const std::size_t begin = part.begin + block * kBlock;
    const std::size_t end = std::min(begin + kBlock, part.end);
    const std::size_t middle = std::clamp(decay_end_, begin, end);
    step(begin, middle, factors.matrix_decay);
    step(middle, end, 1);
    if (stepped) stepped(begin, end);
  }
}

}  // namespace causeway::intra
