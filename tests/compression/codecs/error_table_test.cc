// The relative squared error ||x - Q(x)||^2 / ||x||^2 of each quantiser, computed beforehand over
// 2^20 samples of three distributions and given to two or three figures.
#include <gtest/gtest.h>

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "tests/compression/codecs/encoded.h"
#include "tests/compression/codecs/samples.h"
#include "tests/compression/codecs/specs.h"

namespace causeway::compression {
namespace {

// Drawn once: every row sees the same.
struct Samples {
  static constexpr std::size_t kCount = std::size_t{1} << 20;
  Floats gauss = draw(gaussian_at, kCount);
  Floats laplace = draw(laplace_at, kCount);
  Floats student = draw(student_at, kCount);
};

const Samples& samples() {
  static const Samples drawn;
  return drawn;
}

struct Row {
  const char* spec;
  double gauss, laplace, student;
};

// Of heavy tails, a few samples carry much of the sum.
constexpr double kGaussNoise = 0.02, kLaplaceNoise = 0.04, kStudentNoise = 0.15;

class ErrorTable : public testing::TestWithParam<Row> {};

TEST_P(ErrorTable, HoldsWithinSamplingNoise) {
  const std::unique_ptr<Codec> codec = make_codec(GetParam().spec);
  const auto check = [&](const Floats& input, double expected, double noise) {
    const double error = encode(*codec, input).stats.relative_squared_error();
    EXPECT_NEAR(error / expected, 1, noise) << error;
  };
  check(samples().gauss, GetParam().gauss, kGaussNoise);
  check(samples().laplace, GetParam().laplace, kLaplaceNoise);
  check(samples().student, GetParam().student, kStudentNoise);
}

INSTANTIATE_TEST_SUITE_P(AllRows, ErrorTable,
                         testing::Values(Row{"dense:int8,block=64", 3.5e-5, 6.1e-5, 8.1e-5},
                                         Row{"dense:int8,block=128", 4.2e-5, 8.0e-5, 1.2e-4},
                                         Row{"dense:int8,block=4096", 7.6e-5, 2.0e-4, 7.6e-4},
                                         Row{"dense:int4,block=32", .0094, .0146, .0173},
                                         Row{"dense:int4,block=64", .0116, .0197, .0257},
                                         Row{"dense:int4,block=128", .0138, .0255, .0372},
                                         Row{"dense:int4,block=64,rounding=stochastic", .0232,
                                             .0398, .0524},
                                         Row{"dense:int4,block=4096", .0248, .0638, .196},
                                         Row{"dense:1bit,block=64", .358, .492, .494},
                                         Row{"topk:k=64,value=fp32", 1 - .120, 1 - .215, 1 - .282},
                                         Row{"topk:k=128,value=fp32", 1 - .200, 1 - .326, 1 - .384},
                                         // 1 - (energy kept) * (1 - error on the kept).
                                         Row{"topk:k=64", 1 - .120 * (1 - .0045),
                                             1 - .215 * (1 - .014), 1 - .282 * (1 - .074)}),
                         [](const auto& row) { return test_name(row.param.spec); });

// What a value format loses of the 64 that were kept of each chunk.
class ErrorOnTheKept : public testing::TestWithParam<Row> {};

TEST_P(ErrorOnTheKept, HoldsWithinSamplingNoise) {
  const auto values = make_codec(GetParam().spec);
  const auto exact = make_codec("topk:k=64,value=fp32");
  const auto check = [&](const Floats& input, double expected, double noise) {
    const Floats kept = encode(*exact, input).decoded;
    const double error = encode(*values, kept).stats.relative_squared_error();
    EXPECT_NEAR(error / expected, 1, noise) << error;
  };
  check(samples().gauss, GetParam().gauss, 0.03);
  check(samples().laplace, GetParam().laplace, kLaplaceNoise);
  check(samples().student, GetParam().student, kStudentNoise);
}

INSTANTIATE_TEST_SUITE_P(AllRows, ErrorOnTheKept,
                         testing::Values(Row{"topk:k=64,value=1bit", .012, .035, .133},
                                         Row{"topk:k=64,value=2bit", .0045, .014, .074},
                                         Row{"topk:k=64,value=int4", .0033, .0048, .014}),
                         [](const auto& row) { return test_name(row.param.spec); });

}  // namespace
}  // namespace causeway::compression
