#include "compression/codecs/ladder.h"
#include "compression/codecs/make_codec.h"

#include <gtest/gtest.h>

#include "tests/compression/codecs/encoded.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

using Specs = std::vector<std::string>;

TEST(Ladder, LosesLessWithEveryRungAndEndsLossless) {
  const Floats layer = draw(laplace_at, 4 * kChunk);
  for (const char* spec : {"topk:k=8", "topk:k=64", "topk:k=300,value=int8", "dense:ternary",
                           "dense:nf4", "randk", "dense:fp32"}) {
    const Specs ladder = ladder_above(spec);
    EXPECT_EQ(ladder.front(), make_codec(spec)->spec());
    EXPECT_EQ(ladder.back(), "dense:fp32");
    double error = 2;
    for (const std::string& rung : ladder) {
      const double next = encode(*make_codec(rung), layer).stats.relative_squared_error();
      EXPECT_LT(next, error) << spec << " " << rung;
      error = next;
    }
    EXPECT_EQ(error, 0);
  }
  EXPECT_EQ(ladder_above("topk:k=64").size(), 7U);
  EXPECT_EQ(ladder_above("dense:int8").size(), 2U);
}

}  // namespace
}  // namespace causeway::compression
