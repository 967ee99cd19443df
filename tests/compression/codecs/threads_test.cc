// The number of threads changes neither bytes nor residuals nor norms nor what is refused and why.
#include <gtest/gtest.h>
#include <omp.h>

#include "compression/base/parallel.h"
#include "compression/codecs/feedback.h"
#include "compression/codecs/make_codec.h"
#include "tests/compression/base/chunks.h"
#include "tests/support/openmp.h"

namespace causeway::compression {
namespace {

constexpr std::size_t kCount = 40 * kChunk;

// Chunks are few, and tests run beside each other: one thread each, but for the tests of this file.
class SingleThread : public testing::Environment {
  void SetUp() override { omp_set_num_threads(1); }
};
const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new SingleThread);

class Threads : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!test::kCanUseOpenMp) GTEST_SKIP() << "OpenMP under TSan";
  }
  ~Threads() override { omp_set_num_threads(1); }

  const std::unique_ptr<Codec> codec_ = make_codec(GetParam());
};

struct Outcome {
  std::vector<std::byte> bytes{};
  Floats residual{}, sum{};
  EncodeStats stats{};
};

Outcome encode_and_decode(const Codec& codec, int threads) {
  omp_set_num_threads(threads);
  Outcome outcome{.residual = draw(laplace_at, kCount, 2), .sum = Floats(kCount, 1.0F)};
  const Floats delta = draw(gaussian_at, kCount, 1);
  outcome.stats = encode_with_feedback(codec, delta, 0.95F, outcome.residual, outcome.bytes);
  codec.decode_add(outcome.bytes, 0.3F, outcome.sum);
  return outcome;
}

TEST_P(Threads, ChangeNoBit) {
  const Outcome one = encode_and_decode(*codec_, 1);
  for (const int threads : {2, 3, 7}) {
    const Outcome many = encode_and_decode(*codec_, threads);
    EXPECT_EQ(many.bytes, one.bytes);
    EXPECT_TRUE(same_bits(many.residual, one.residual));
    EXPECT_TRUE(same_bits(many.sum, one.sum));
    EXPECT_EQ(many.stats.input_norm_squared, one.stats.input_norm_squared);
    EXPECT_EQ(many.stats.error_norm_squared, one.stats.error_norm_squared);
  }
}

TEST_P(Threads, NameTheFirstElementsThatAreNotFinite) {
  Floats delta = draw(gaussian_at, kCount, 1);
  for (const std::size_t chunk : {11U, 25U, 39U}) delta[chunk * kChunk + 7] = std::nanf("");
  const Floats old = draw(laplace_at, kCount, 2);
  for (const int threads : {1, 2, 7}) {
    omp_set_num_threads(threads);
    Floats residual = old;
    std::vector<std::byte> bytes{std::byte{9}};
    try {
      encode_with_feedback(*codec_, delta, 0.95F, residual, bytes);
      FAIL() << "accepted";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::not_finite);
      const std::string first = "elements from " + std::to_string(11 * kChunk);
      EXPECT_NE(std::string(error.what()).find(first), std::string::npos) << error.what();
    }
    EXPECT_EQ(bytes, std::vector{std::byte{9}});
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Threads,
                         testing::Values("dense:int8", "dense:int4", "topk:k=64",
                                         "topk:k=64,index=rice", "threshold:t=2.5"),
                         [](const auto& spec) { return "spec" + std::to_string(spec.index); });

TEST(FirstFailure, IsTheLeastWhateverTheThreads) {
  if (!test::kCanUseOpenMp) GTEST_SKIP() << "OpenMP under TSan";
  for (const int wanted : {1, 2, 5}) {
    omp_set_num_threads(wanted);
    EXPECT_EQ(first_failure(100, [](std::size_t i) { return i % 40 != 39; }), 39U);
    EXPECT_EQ(first_failure(100, [](std::size_t) { return true; }), kNone);
    EXPECT_EQ(first_failure(0, [](std::size_t) { return false; }), kNone);
  }
  omp_set_num_threads(1);
}

}  // namespace
}  // namespace causeway::compression
