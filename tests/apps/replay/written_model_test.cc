#include "apps/run/replay/replay.h"

#include <vector>

#include <gtest/gtest.h>

#include "apps/run/config/config.h"
#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

TEST(WrittenModel, OfAProgramSaysWhoseArraysTheseAreAsTransformersAsks) {
  const TemporaryDirectory directory;
  const diloco::Layout layout({{"head.weight", {2, 3}}});
  const std::vector<float> params(layout.size(), 1.0f);
  write_replayed_model(directory.path(), load_text(kSmallConfig), layout, params,
                       {.run_id = "ab", .version = 7});
  const auto metadata = intra::SafetensorsReader(directory.path() / "model.safetensors").metadata();
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(metadata.at("round"), "7");
}

}  // namespace
}  // namespace causeway::run
