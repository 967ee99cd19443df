// Images of weights are the model that a follower of the whole state publishes, and patches lead
// from one to the other, exactly; what a stranger sends as one is refused or makes another image.
#include "apps/run/follow/weights_patch.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/follow/followed_state.h"
#include "apps/run/follow/weights_image.h"
#include "compression/base/float16.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "intra/model/model.h"
#include "intra/outer/state_file.h"
#include "tests/support/temporary_directory.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class WeightsPatchTest : public ::testing::Test {
 protected:
  WeightsPatchTest() {
    config_.model = {.vocabulary = 64,
                     .context = 8,
                     .layers = 2,
                     .width = 32,
                     .heads = 1,
                     .kv_heads = 1,
                     .hidden = 64};
  }
  // The image of a version whose weights are `scale` from those of version 0.
  fs::path image(diloco::Round version, float scale) {
    const diloco::Layout layout(intra::parameter_tensors(config_.model));
    intra::OuterState state(layout);
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 0.05F);
    for (float& weight : state.anchor) weight = normal(random);
    std::mt19937 changes(static_cast<unsigned>(version));
    for (float& weight : state.anchor) weight += scale * normal(changes);
    state.anchor[1] = 0;
    state.anchor[2] = 3e38F;
    state.anchor[3] = version % 2 == 0 ? -1e-30F : 2.0F;
    state.version = version;
    state.digest = intra::whole_digest(state);
    const fs::path snapshot = directory_.path() / ("snapshot-" + std::to_string(version));
    intra::write_snapshot(snapshot, layout, state);
    digest_ = state.digest;
    const fs::path file = directory_.path() / ("image-" + std::to_string(version));
    write_weights_image(snapshot, file);
    return file;
  }
  static std::string content(const fs::path& file) {
    return diloco::read_file(file).value_or("not there");
  }
  static void write(const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string failure(const fs::path& from, const fs::path& patch) const {
    try {
      apply_weights_patch(from, patch, directory_.path() / "made");
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), make_error_code(diloco::Errc::malformed)) << error.what();
      return error.what();
    }
    return "";
  }

  Config config_;
  test::TemporaryDirectory directory_{test::in_memory()};
  const fs::path patch_ = directory_.path() / "patch", made_ = directory_.path() / "made";
  diloco::Digest digest_{};
};

TEST_F(WeightsPatchTest, AnImageIsTheModelThatTheWholeStateGives) {
  const fs::path file = image(4, 0.1F);
  const FollowedState state(config_, "run-1", directory_.path() / "snapshot-4", 4, digest_);
  state.write_model(directory_.path() / "whole", intra::StoredAs::bf16);
  const WeightsImage weights(file);
  EXPECT_EQ(weights.version(), 4U);
  weights.write_model(directory_.path() / "alone", config_, "run-1");
  for (const char* name : {"model.safetensors", "config.json"}) {
    EXPECT_EQ(content(directory_.path() / "alone" / name),
              content(directory_.path() / "whole" / name))
        << name;
  }
}

TEST_F(WeightsPatchTest, LeadsToTheLaterImageInFewerBytes) {
  const fs::path from = image(4, 0.1F), to = image(17, 0.1F), near = image(18, 0.0001F);
  const fs::path start = image(0, 0);
  write_weights_patch(from, to, patch_);
  EXPECT_LT(fs::file_size(patch_), fs::file_size(to) * 3 / 4);
  apply_weights_patch(from, patch_, made_);
  EXPECT_EQ(content(made_), content(to));
  write_weights_patch(to, from, patch_);
  apply_weights_patch(to, patch_, made_);
  EXPECT_EQ(content(made_), content(from));
  write_weights_patch(start, near, patch_);
  EXPECT_LT(fs::file_size(patch_), fs::file_size(to) / 5) << "little has changed";
}

TEST_F(WeightsPatchTest, OfOtherWeightsIsRefused) {
  const fs::path from = image(4, 0.1F), to = image(5, 0.1F);
  config_.model.layers = 3;
  const fs::path larger = image(6, 0.1F);
  EXPECT_THROW(write_weights_patch(from, larger, patch_), std::system_error);
  EXPECT_FALSE(fs::exists(patch_));
  write_weights_patch(from, to, patch_);
  EXPECT_THAT(failure(larger, patch_), HasSubstr("too short"));
  EXPECT_FALSE(fs::exists(made_));
  config_.model.layers = 2;
  config_.data.files = {"text"};  // the model is one of ours
  EXPECT_THROW(WeightsImage(larger).write_model(directory_.path() / "model", config_, "run-1"),
               ConfigError);
}

// Never a crash, and never the right image by accident.
TEST_F(WeightsPatchTest, OfAStrangerIsRefusedOrMakesAnotherImage) {
  const fs::path from = image(4, 0.1F), to = image(5, 0.1F);
  write_weights_patch(from, to, patch_);
  const std::string right = content(patch_), wanted = content(to);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{3}, right.size() / 2, right.size() - 1}) {
    write(patch_, right.substr(0, size));
    EXPECT_NE(failure(from, patch_), "") << size;
  }
  write(patch_, "no archive at all");
  EXPECT_NE(failure(from, patch_), "");
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::string wrong = right;
    wrong[random() % wrong.size()] ^= static_cast<char>(1U << random() % 8);
    write(patch_, wrong);
    if (failure(from, patch_).empty()) {
      EXPECT_NE(content(made_), wanted);
    }
  }
}

TEST_F(WeightsPatchTest, WhatIsNoImageIsRefused) {
  const fs::path file = image(4, 0.1F);
  const std::string right = content(file);
  std::string long_header = right;
  long_header[3] = '\x7f';
  for (const std::string& wrong :
       {std::string(), std::string("1234"), right.substr(0, right.size() - 1), long_header,
        std::string("\x08\0\0\0\0\0\0\0nothing ", 16)}) {
    write(made_, wrong);
    EXPECT_THROW(WeightsImage{made_}, std::system_error) << wrong.size();
  }
  EXPECT_THROW(write_weights_image(file, made_), std::system_error) << "it is no snapshot";
}

}  // namespace
}  // namespace causeway::run
