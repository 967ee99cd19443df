// Which snapshots a follower begins with: those of the state and of the tensors that it knows.
#include "apps/run/follow/followed_state.h"

#include <filesystem>
#include <string>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "intra/base/safetensors.h"
#include "intra/model/model.h"
#include "tests/support/temporary_directory.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;

class FollowedStateTest : public ::testing::Test {
 protected:
  FollowedStateTest() {
    config_.model = {.vocabulary = 16,
                     .context = 8,
                     .layers = 1,
                     .width = 8,
                     .heads = 1,
                     .kv_heads = 1,
                     .hidden = 16};
  }
  // Of the configured model, some numbers in it; its digest.
  diloco::Digest write(const diloco::Layout& layout) {
    intra::OuterState state(layout);
    state.anchor[3] = 0.5F;
    state.version = 4;
    state.digest = intra::whole_digest(state);
    intra::write_snapshot(file_, layout, state);
    return state.digest;
  }
  diloco::Layout model() const { return diloco::Layout(intra::parameter_tensors(config_.model)); }
  std::string failure(const diloco::Digest& digest) const {
    try {
      const FollowedState state(config_, "run-1", file_, 4, digest);
    } catch (const std::system_error& error) {
      return error.what();
    }
    return "";
  }

  Config config_;
  test::TemporaryDirectory directory_{test::in_memory()};
  const std::filesystem::path file_ = directory_.path() / "state.safetensors";
};

TEST_F(FollowedStateTest, BeginsWithTheStateThatWasAgreed) {
  const diloco::Digest digest = write(model());
  const FollowedState state(config_, "run-1", file_, 4, digest);
  EXPECT_EQ(state.version(), 4U);
  EXPECT_EQ(state.digest(), digest);
  diloco::Digest other = digest;
  other[0] ^= 1;
  EXPECT_THAT(failure(other), HasSubstr("does not have the digest"));
}

TEST_F(FollowedStateTest, WhatItSavesItCanBeginWith) {
  const diloco::Digest digest = write(model());
  const std::filesystem::path saved = directory_.path() / "saved.safetensors";
  FollowedState(config_, "run-1", file_, 4, digest).save(saved);
  EXPECT_EQ(FollowedState(config_, "run-1", saved, 4, digest).digest(), digest);
}

TEST_F(FollowedStateTest, OtherTensorNamesAreFoundWhereTheModelIsConfigured) {
  auto tensors = intra::parameter_tensors(config_.model);
  tensors.back().name += "2";
  const diloco::Digest digest = write(diloco::Layout(tensors));
  EXPECT_EQ(failure(digest), "") << "a program's own model may have any";
  config_.data.files = {"text"};
  EXPECT_THAT(failure(digest), HasSubstr("does not have the tensors of the configured model"));
}

TEST_F(FollowedStateTest, TensorsThatTheFileCannotHoldAreRefusedBeforeTheyTakeMemory) {
  const diloco::Layout huge({{"huge", {1 << 20, 1 << 20}}});
  const std::vector<float> few(8);
  intra::write_safetensors(
      file_, {{intra::flat_tensor("anchor", few)}},
      {{"tensors", intra::describe_tensors(huge)}, {"layout", intra::fingerprint(huge)}});
  EXPECT_THAT(failure({}), HasSubstr("names other tensors than it holds"));
}

TEST_F(FollowedStateTest, WritesTheModelInBothPrecisions) {
  const diloco::Digest digest = write(model());
  config_.data.files = {"text"};
  const FollowedState state(config_, "run-1", file_, 4, digest);
  state.write_model(directory_.path() / "full", intra::StoredAs::fp32);
  state.write_model(directory_.path() / "half", intra::StoredAs::bf16);
  const intra::SafetensorsReader full(directory_.path() / "full" / "model.safetensors");
  const intra::SafetensorsReader half(directory_.path() / "half" / "model.safetensors");
  EXPECT_EQ(full.names(), half.names());
  for (const std::string& name : full.names()) {
    ASSERT_EQ(full.shape(name), half.shape(name));
    std::vector<float> a(diloco::TensorSpec{name, full.shape(name)}.count()), b(a.size());
    full.read(name, a);
    half.read(name, b);
    EXPECT_EQ(a, b) << name << ": bf16 has all of these numbers";
  }
}

}  // namespace
}  // namespace causeway::run
