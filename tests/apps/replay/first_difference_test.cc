#include "apps/run/replay/replay.h"

#include <gtest/gtest.h>
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

const diloco::Layout& embedding_and_norm() {
  static const diloco::Layout layout({{"embedding", {50, 100}}, {"norm", {7}}});
  return layout;
}

class FirstDifference : public testing::Test {
 protected:
  FirstDifference() {
    state_.anchor[10] = 0.5F;
    write_snapshot(file_, embedding_and_norm(), state_);
  }
  std::optional<std::string> difference() const {
    return first_difference(embedding_and_norm(), state_, file_);
  }

  TemporaryDirectory directory_;
  const std::filesystem::path file_ = directory_ / "state.safetensors";
  intra::OuterState state_{embedding_and_norm()};
};

TEST_F(FirstDifference, EqualStatesHaveNone) {
  EXPECT_EQ(difference(), std::nullopt);
}

TEST_F(FirstDifference, NamesSpanTensorElementAndBothNumbers) {
  state_.anchor[10] = 0.25F;
  state_.anchor[11] = 1;
  EXPECT_EQ(difference(), "anchor, embedding, element 10: 0.5 there, 0.25 computed");
}

TEST_F(FirstDifference, LooksAtMomentumAndVectorsToo) {
  state_.momentum[embedding_and_norm().find("norm").offset + 3] = 2;
  EXPECT_EQ(difference(), "momentum, norm, element 3: 0 there, 2 computed");
}

TEST_F(FirstDifference, KnowsPaddingAndTheSignOfZero) {
  state_.anchor[5000] = -0.0F;
  EXPECT_EQ(difference(), "anchor, the padding after embedding: 0 there, -0 computed");
}

}  // namespace
}  // namespace causeway::run
