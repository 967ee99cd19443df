#include "intra/cuda/step/device_muon.h"

#include <algorithm>
#include <type_traits>

namespace causeway::intra::cuda {
namespace {

std::int64_t packs_of(std::int64_t elements) {
  return elements / kPack;
}
Pack<float>* packs_at(float* values, std::int64_t offset = 0) {
  return reinterpret_cast<Pack<float>*>(values + offset);
}

// How many elements the arrays have in which `count` such matrices are stepped. `values` and
// `grams` are each needed twice in fp32, and once more in bf16 where products are of bf16.
struct Room {
  Room(std::int64_t count, const MuonMatrix& each)
      : values(count * each.out * each.in),
        grams(count * std::min(each.out, each.in) * std::min(each.out, each.in)),
        partials(count * SquareSums::blocks_of(packs_of(each.out * each.in))) {}

  std::int64_t bytes() const {
    constexpr std::int64_t kEach = 2 * sizeof(float) + sizeof(Bfloat16);
    return kEach * (values + grams);
  }

  std::int64_t values, grams, partials;
};

std::size_t batch_of(std::span<const MuonMatrix> matrices) {
  return muon_batch(matrices, DeviceMuon::kRoomBytes / Room(1, matrices.front()).bytes());
}

Room room_for(std::span<const MuonMatrix> matrices) {
  Room most(0, matrices.front());
  for (auto left = matrices; !left.empty();) {
    const std::size_t together = batch_of(left);
    const Room room(static_cast<std::int64_t>(together), left.front());
    most.values = std::max(most.values, room.values);
    most.grams = std::max(most.grams, room.grams);
    most.partials = std::max(most.partials, room.partials);
    left = left.subspan(together);
  }
  return most;
}

}  // namespace

// Matrices that are stepped together.
struct DeviceMuon::Batch {
  std::int64_t count, out, in;

  bool tall() const { return out > in; }
  std::int64_t small() const { return std::min(out, in); }
  std::int64_t packs() const { return packs_of(out * in); }  // of one
};

DeviceMuon::DeviceMuon(const WorkerOptions& options, const diloco::Layout& layout,
                       const TrainingSpans& spans, const StepResult* result, Backend& backend)
    : options_(options),
      spans_(spans),
      result_(result),
      backend_(backend),
      matrices_(muon_matrices_by_shape(options.inner, layout)) {
  if (matrices_.empty()) return;
  const Room room = room_for(matrices_);
  const auto bytes = [&](std::int64_t count, std::size_t each) {
    return backend.allocate(static_cast<std::size_t>(count) * each);
  };
  const auto floats = [&](std::int64_t count) {
    return reinterpret_cast<float*>(bytes(count, sizeof(float)));
  };
  values_ = floats(room.values);
  product_ = floats(room.values);
  gram_ = floats(room.grams);
  square_ = floats(room.grams);
  partials_ = reinterpret_cast<double*>(bytes(room.partials, sizeof(double)));
  if (options.model.precision != ModelOptions::Precision::bf16) return;
  values_operand_ = reinterpret_cast<Bfloat16*>(bytes(room.values, sizeof(Bfloat16)));
  gram_operand_ = reinterpret_cast<Bfloat16*>(bytes(room.grams, sizeof(Bfloat16)));
}

void DeviceMuon::step(const Update& update) {
  std::vector<MuonMatrix> own;
  for (const MuonMatrix& matrix : matrices_) {
    if (lies_in(update.own, matrix.elements)) {
      own.push_back(matrix);
    } else if (update.moments.has_all()) {
      add_gradient(matrix, update, nullptr);
    }
  }
  for (std::span<const MuonMatrix> left = own; !left.empty();) {
    const std::size_t count = batch_of(left);
    if (values_operand_ != nullptr) {
      step_batch<Bfloat16>(left.first(count), update);
    } else {
      step_batch<float>(left.first(count), update);
    }
    left = left.subspan(count);
  }
}

void DeviceMuon::add_gradient(const MuonMatrix& matrix, const Update& update, Pack<float>* copy) {
  const auto offset = static_cast<std::int64_t>(matrix.elements.begin);
  const std::size_t moment = update.moments.first_moment_at(matrix.elements);
  backend_.run(MuonMomentum{.packs = packs_of(matrix.out * matrix.in),
                            .factor = options_.inner.momentum,
                            .result = result_,
                            .gradients = packs_at(spans_.gradients.data(), offset),
                            .momentum = update.momentum + moment / kPack,
                            .copy = copy});
}

template <typename T>
void DeviceMuon::step_batch(std::span<const MuonMatrix> matrices, const Update& update) {
  const Batch batch{static_cast<std::int64_t>(matrices.size()), matrices.front().out,
                    matrices.front().in};
  const std::int64_t blocks = SquareSums::blocks_of(batch.packs());
  for (std::int64_t i = 0; i < batch.count; ++i) {
    Pack<float>* const values = packs_at(values_) + i * batch.packs();
    add_gradient(matrices[static_cast<std::size_t>(i)], update, values);
    backend_.run(SquareSums{blocks, batch.packs(), values, partials_ + i * blocks});
  }
  backend_.run(MuonScale<T>{batch.count * blocks, batch.packs(), blocks, partials_,
                            packs_at(values_), rounded<T>(values_operand_)});
  for (const auto& polynomial : kMuonPolynomials) iterate<T>(polynomial, batch);
  for (std::int64_t i = 0; i < batch.count; ++i)
    apply(matrices[static_cast<std::size_t>(i)], packs_at(values_) + i * batch.packs(), update);
}

// X <- a X + (b A + c A A) X, as Orthogonaliser has it.
template <typename T>
void DeviceMuon::iterate(const float (&polynomial)[3], const Batch& batch) {
  const auto [a, b, c] = polynomial;
  const std::int64_t small = batch.small(), grams = packs_of(batch.count * small * small);
  const T* const values = operand<T>(values_, values_operand_);
  const T* const gram = operand<T>(gram_, gram_operand_);
  const auto multiply = [&](std::int64_t m, std::int64_t n, std::int64_t k, Product::Operand left,
                            Product::Operand right, float* into) {
    backend_.multiply({.element = kElement<T>,
                       .result = Element::fp32,
                       .m = m,
                       .n = n,
                       .k = k,
                       .count = batch.count,
                       .a = left,
                       .b = right,
                       .c = into,
                       .c_stride = n});
  };
  const bool tall = batch.tall();
  multiply(small, small, std::max(batch.out, batch.in), {values, batch.in, tall},
           {values, batch.in, !tall}, gram_);
  if constexpr (!std::is_same_v<T, float>) {
    backend_.run(Round<T>{grams, packs_at(gram_), rounded<T>(gram_operand_)});
  }
  multiply(small, small, small, {gram, small}, {gram, small}, square_);  // it is symmetric
  backend_.run(MuonMix<T>{grams, b, c, packs_at(gram_), packs_at(square_), packs_at(gram_),
                          rounded<T>(gram_operand_)});
  if (tall) {
    multiply(batch.out, batch.in, small, {values, batch.in}, {gram, small}, product_);
  } else {
    multiply(batch.out, batch.in, small, {gram, small}, {values, batch.in}, product_);
  }
  backend_.run(MuonMix<T>{batch.count * batch.packs(), a, 1, packs_at(values_), packs_at(product_),
                          packs_at(values_), rounded<T>(values_operand_)});
}

void DeviceMuon::apply(const MuonMatrix& matrix, const Pack<float>* step, const Update& update) {
  const auto offset = static_cast<std::int64_t>(matrix.elements.begin);
  const auto [decay, rate] = muon_factors(options_.inner, update.lr, matrix.out, matrix.in);
  const auto run = [&, decay = decay, rate = rate]<typename Weight>(Pack<Weight>* weights) {
    backend_.run(MuonStep<Weight>{.packs = packs_of(matrix.out * matrix.in),
                                  .first = packs_of(offset),
                                  .decay = decay,
                                  .rate = rate,
                                  .result = result_,
                                  .step = step,
                                  .params = packs_at(spans_.params.data(), offset),
                                  .weights = weights,
                                  .dither = update.dither});
  };
  if (update.weights == nullptr) return run(static_cast<Pack<float>*>(nullptr));
  run(reinterpret_cast<Pack<Bfloat16>*>(update.weights + offset));
}

}  // namespace causeway::intra::cuda
