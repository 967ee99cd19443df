// Global norm, clipping and AdamW over the flat span. The norm stays on the device: the update
// reads it there.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "intra/cuda/jobs/job_pointwise.h"
#include "intra/cuda/jobs/numbers.h"

namespace causeway::intra::cuda {

// partials[r] = sum of squares of block r of kBlockPacks packs.
struct SquareSums {
  static constexpr unsigned kLanes = 512;
  static constexpr std::int64_t kBlockPacks = 4096;
  struct Memory {};

  static constexpr std::int64_t blocks_of(std::int64_t packs) {
    return (packs + kBlockPacks - 1) / kBlockPacks;
  }

  std::int64_t rows = 0;  // blocks
  std::int64_t packs = 0;
  const Pack<float>* values = nullptr;
  double* partials = nullptr;

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t block) const {
    const std::int64_t begin = block * kBlockPacks;
    const std::int64_t end = begin + kBlockPacks < packs ? begin + kBlockPacks : packs;
    const double sum = group.sum([&](unsigned lane) {
      double own = 0;
      for (std::int64_t p = begin + lane; p < end; p += kLanes) {
        const Floats v = unpack(values[p]);
        for (const float value : v.v) own += static_cast<double>(value) * value;
      }
      return own;
    });
    group.each([&](unsigned lane) {
      if (lane == 0) partials[block] = sum;
    });
  }
};

// The norm, and by how much it is to be clipped.
struct Clip {
  static constexpr unsigned kLanes = 512;
  struct Memory {};

  // As the member of other jobs of this name.
  static constexpr std::int64_t rows = 1;  // NOLINT(readability-identifier-naming)
  std::int64_t partials_count = 0;
  const double* partials = nullptr;
  const UpdateScalars* update = nullptr;
  StepResult* result = nullptr;

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t) const {
    const double squares = group.sum([&](unsigned lane) {
      double own = 0;
      for (std::int64_t i = lane; i < partials_count; i += kLanes) own += partials[i];
      return own;
    });
    group.each([&](unsigned lane) {
      if (lane > 0) return;
      const double norm = std::sqrt(squares), most = update->clip_norm;
      const bool finite = norm <= std::numeric_limits<double>::max();
      result->norm = norm;
      result->clip = !finite ? 0 : most > 0 && norm > most ? static_cast<float>(most / norm) : 1;
    });
  }
};

// The update, and what the products multiply next, as Round has it.
template <typename T>
struct AdamWStep {
  std::int64_t packs = 0, matrix_packs = 0;
  std::int64_t first = 0;  // before these in the flat span
  const UpdateScalars* update = nullptr;
  const StepResult* result = nullptr;
  const Pack<float>* gradients = nullptr;
  Pack<float>* params = nullptr;
  Pack<float>* first_moment = nullptr;
  Pack<float>* second_moment = nullptr;
  Pack<T>* weights = nullptr;         // null: the parameters themselves
  const PhiloxKey* dither = nullptr;  // null: to the nearest

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    if (result->clip == 0) return;
    AdamWFactors factors = update->factors;
    factors.gradient_scale = result->clip;
    const float decay = i < matrix_packs ? factors.matrix_decay : 1.0F;
    const Floats gradient = unpack(gradients[i]);
    Floats param = unpack(params[i]), m = unpack(first_moment[i]), v = unpack(second_moment[i]);
    for (unsigned k = 0; k < kPack; ++k) {
      adamw_element(factors, decay, gradient.v[k], param.v[k], m.v[k], v.v[k]);
    }
    store(param, params[i]);
    store(m, first_moment[i]);
    store(v, second_moment[i]);
    if (weights != nullptr)
      store(dither != nullptr ? dithered(*dither, first + i, param) : param, weights[i]);
  }
};

// Muon's step (step/muon.h), but for its matrix products: matrices of one shape lie one after the
// other, each of `packs` packs.

// momentum = factor momentum + clip gradients, and a copy of it.
struct MuonMomentum {
  std::int64_t packs = 0;
  float factor = 0;
  const StepResult* result = nullptr;
  const Pack<float>* gradients = nullptr;
  Pack<float>* momentum = nullptr;
  Pack<float>* copy = nullptr;  // null: none is needed

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    if (result->clip == 0) return;
    const Floats gradient = unpack(gradients[i]);
    Floats m = unpack(momentum[i]);
    for (unsigned k = 0; k < kPack; ++k) m.v[k] = factor * m.v[k] + result->clip * gradient.v[k];
    store(m, momentum[i]);
    if (copy != nullptr) store(m, copy[i]);
  }
};

// Every matrix, divided by its norm; one of zeros stays as it is. `partials`: of SquareSums of each
// matrix, whose blocks are the rows here.
template <typename T>
struct MuonScale {
  static constexpr unsigned kLanes = SquareSums::kLanes;
  struct Memory {};

  std::int64_t rows = 0;
  std::int64_t packs = 0, blocks = 0;  // of a matrix
  const double* partials = nullptr;
  Pack<float>* values = nullptr;
  Pack<T>* operand = nullptr;  // what the products multiply; null: the values

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t r) const {
    const std::int64_t matrix = r / blocks, begin = r % blocks * SquareSums::kBlockPacks;
    const std::int64_t most = begin + SquareSums::kBlockPacks, end = most < packs ? most : packs;
    const double squares = group.sum([&](unsigned lane) {
      double own = 0;
      for (std::int64_t b = lane; b < blocks; b += kLanes) own += partials[matrix * blocks + b];
      return own;
    });
    const float factor = squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0.0F;
    group.each([&](unsigned lane) {
      for (std::int64_t p = matrix * packs + begin + lane; p < matrix * packs + end; p += kLanes) {
        Floats v = unpack(values[p]);
        for (float& value : v.v) value *= factor;
        store(v, values[p]);
        if (operand != nullptr) store(v, operand[p]);
      }
    });
  }
};

// out = a x + b y. out may be x.
template <typename T>
struct MuonMix {
  std::int64_t packs = 0;
  float a = 0, b = 0;
  const Pack<float>* x = nullptr;
  const Pack<float>* y = nullptr;
  Pack<float>* out = nullptr;
  Pack<T>* operand = nullptr;  // as MuonScale's

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    Floats values = unpack(x[i]);
    const Floats others = unpack(y[i]);
    for (unsigned k = 0; k < kPack; ++k) values.v[k] = a * values.v[k] + b * others.v[k];
    store(values, out[i]);
    if (operand != nullptr) store(values, operand[i]);
  }
};

// params = decay params - rate step, and what the products multiply next, as AdamWStep has it.
template <typename T>
struct MuonStep {
  std::int64_t packs = 0, first = 0;  // `first`: before these in the flat span
  float decay = 1, rate = 0;
  const StepResult* result = nullptr;
  const Pack<float>* step = nullptr;
  Pack<float>* params = nullptr;
  Pack<T>* weights = nullptr;
  const PhiloxKey* dither = nullptr;

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    if (result->clip == 0) return;
    const Floats change = unpack(step[i]);
    Floats param = unpack(params[i]);
    for (unsigned k = 0; k < kPack; ++k) param.v[k] = decay * param.v[k] - rate * change.v[k];
    store(param, params[i]);
    if (weights != nullptr)
      store(dither != nullptr ? dithered(*dither, first + i, param) : param, weights[i]);
  }
};

}  // namespace causeway::intra::cuda
