// Algorithms of cuBLASLt that are timed and kept, on its double: of what that proposes, the second
// is the fastest of those that work, and adds in no fixed order; the third is the best.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "intra/cuda/device/cuda_backend.h"
#include "intra/cuda/device/kept_algorithms.h"
#include "intra/cuda/step/device_stepper.h"
#include "intra/model/model.h"
#include "tests/gpu_double/cudart.h"
#include "tests/intra/collective/on_ranks.h"
#include "tests/intra/cuda/models.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra::cuda {
namespace {

constexpr std::int64_t kSize = 16;

// Numbers whose sum depends on its order.
std::vector<float> thirds() {
  std::vector<float> values(kSize * kSize);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0F / static_cast<float>(3 + i % 29) * (i % 2 == 0 ? 1.0F : -1000.0F);
  return values;
}

struct Done {
  std::vector<float> result;
  std::uint64_t launches = 0;
};

class TimedProducts : public testing::Test {
 protected:
  // c = 1 + a a, or a a.
  Done multiply(const std::optional<std::filesystem::path>& kept, bool accumulate = false) {
    CudaBackend backend(0, {.fused_attention = false, .kept_algorithms = kept});
    const std::vector<float> values = thirds(), ones(values.size(), 1.0F);
    const std::size_t bytes = values.size() * sizeof(float);
    const auto on_device = [&](const std::vector<float>& from) {
      std::byte* const memory = backend.allocate(bytes);
      backend.upload(from.data(), memory, bytes);
      return memory;
    };
    Product product;
    product.element = product.result = Element::fp32;
    product.m = product.n = product.k = product.c_stride = kSize;
    product.a = product.b = {on_device(values), kSize, false};
    product.c = on_device(ones);
    product.accumulate = accumulate;
    const std::uint64_t before = gpu_double::counts().launches;
    backend.multiply(product);
    Done done{std::vector<float>(values.size()), 0};
    backend.download(product.c, done.result.data(), bytes);
    done.launches = gpu_double::counts().launches - before;
    return done;
  }
  // Of the only product in the file; the double writes it into the second of eight numbers.
  unsigned long kept_algorithm() const {
    std::ifstream in(file_);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    return std::stoul(all.substr(all.rfind('\t') + 1 + 16, 16), nullptr, 16);
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "products";
};

TEST_F(TimedProducts, TheFastestThatAddsInAFixedOrderIsTaken) {
  const Done first = multiply(std::nullopt), timed = multiply(file_);
  EXPECT_EQ(first.launches, 1);
  EXPECT_GT(timed.launches, 1);
  EXPECT_EQ(kept_algorithm(), 2);
  EXPECT_NE(timed.result, first.result);
}

TEST_F(TimedProducts, LaterStartsTakeItAndTimeNothing) {
  const Done timed = multiply(file_), later = multiply(file_);
  EXPECT_EQ(later.launches, 1);
  EXPECT_EQ(later.result, timed.result);
}

TEST_F(TimedProducts, AProductThatAddsToItsResultAddsOnce) {
  const Done timed = multiply(file_, true), later = multiply(file_, true);
  EXPECT_GT(timed.launches, later.launches);
  EXPECT_EQ(timed.result, later.result);
}

TEST_F(TimedProducts, WhereNothingCanBeKeptTheFirstIsTaken) {
  std::ofstream(directory_.path() / "file") << "in the way";
  const Done done = multiply(directory_.path() / "file" / "products");
  EXPECT_EQ(done.launches, 1);
  EXPECT_EQ(done.result, multiply(std::nullopt).result);
}

TEST_F(TimedProducts, AnAlgorithmThatTheLibraryDoesNotKnowIsTimedAgain) {
  multiply(file_);
  KeptAlgorithms::Algorithm unknown{};
  std::string product;
  {
    std::ifstream in(file_);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    const std::size_t end = all.rfind('\t'), begin = all.rfind('\t', end - 1) + 1;
    const std::size_t machine = all.rfind('\t', begin - 2) + 1;
    product = all.substr(begin, end - begin);
    const std::string name = all.substr(machine, begin - 1 - machine);
    std::filesystem::remove(file_);
    KeptAlgorithms(file_, name).keep(product, unknown);
  }
  const Done done = multiply(file_);
  EXPECT_GT(done.launches, 1);
  EXPECT_EQ(kept_algorithm(), 2);
  EXPECT_EQ(multiply(file_).launches, 1);
}

// Gradients are summed over the ranks: who computed them how does not matter for that.
TEST_F(TimedProducts, RanksWithDifferentAlgorithmsEndWithTheSameBits) {
  WorkerOptions options;
  options.model = gpt2();
  options.model.layers = 1;
  options.train.batch = options.world = 2;
  std::array<std::vector<float>, 2> params, alone;
  const auto train = [&](Collective& group, std::vector<float>& into, bool timed) {
    const diloco::Layout layout(parameter_tensors(options.model));
    TrainingState state(options.inner, layout);
    CudaOptions cuda{.fused_attention = false};
    if (timed) cuda.kept_algorithms = file_;
    const auto stepper = make_device_stepper(options, std::make_unique<CudaBackend>(0, cuda));
    initialise_parameters(options.model, layout, 1, state.params);
    stepper->join(group, state);
    for (std::int64_t step = 0; step < 2; ++step) {
      const tiny::Sequences sequences(options.model, 2, 8, step);
      stepper->begin(1e-3F);
      stepper->accumulate(sequences.part(static_cast<std::int64_t>(group.rank()), 1), {}, 0.5F,
                          true);
      stepper->finish();
      stepper->update();
      ++state.optimizer_steps;
    }
    stepper->settle(Settle::all);
    stepper->leave();
    into = state.params;
  };
  on_ranks(2, [&](Collective& group) { train(group, params[group.rank()], group.rank() == 1); });
  EXPECT_EQ(params[0], params[1]);
  const auto solo = make_solo_collective();
  for (const bool timed : {false, true}) train(*solo, alone[timed], timed);
  EXPECT_NE(alone[0], alone[1]) << "the algorithms do not differ, so this test shows nothing";
}

}  // namespace
}  // namespace causeway::intra::cuda
