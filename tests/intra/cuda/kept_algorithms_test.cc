// What two processes of a machine keep for each other, and what becomes of it when the file is not
// what it should be.
#include "intra/cuda/device/kept_algorithms.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/intra/temporary_directory.h"
#include "tests/support/captured_log.h"

namespace causeway::intra::cuda {
namespace {

using Algorithm = KeptAlgorithms::Algorithm;
constexpr Algorithm kOne{1, 2, 0xFEDCBA9876543210}, kOther{7};

bool any(const Algorithm&) {
  return true;
}

class KeptAlgorithmsTest : public testing::Test {
 protected:
  KeptAlgorithms open(const std::string& machine = "GPU, 13") const { return {file_, machine}; }
  std::string content() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(file_) << text; }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "cache" / "products";
};

TEST_F(KeptAlgorithmsTest, WhatIsKeptIsFoundForItsProductAndMachineAlone) {
  open().keep("a", kOne);
  EXPECT_EQ(open().find("a", any), kOne);
  EXPECT_EQ(open().find("b", any), std::nullopt);
  EXPECT_EQ(open("GPU, 14").find("a", any), std::nullopt);
}

TEST_F(KeptAlgorithmsTest, OfTwoThatMeasureAtOneTimeTheFirstToWriteIsRightForBoth) {
  KeptAlgorithms first = open(), second = open();
  EXPECT_EQ(first.find("a", any), second.find("a", any));
  second.keep("a", kOther);
  first.keep("a", kOne);
  EXPECT_EQ(first.find("a", any), kOther);
  EXPECT_EQ(second.find("a", any), kOther);
}

TEST_F(KeptAlgorithmsTest, WhatTheLibraryRefusesIsPassedOver) {
  KeptAlgorithms kept = open();
  kept.keep("a", kOne);
  kept.keep("a", kOther);
  EXPECT_EQ(kept.find("a", [](const Algorithm& one) { return one != kOne; }), kOther);
}

TEST_F(KeptAlgorithmsTest, EveryFlippedBitIsNoticed) {
  open().keep("a", kOne);
  const std::string whole = content();
  const std::size_t record = whole.find('\n') + 2;  // after the first line and an empty one
  for (std::size_t at = record; at + 1 < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    write(flipped);
    EXPECT_EQ(open().find("a", any), std::nullopt) << at;
  }
}

TEST_F(KeptAlgorithmsTest, ALineThatWasCutOffCostsNothingElse) {
  open().keep("a", kOne);
  open().keep("b", kOne);
  write(content().substr(0, content().size() - 5));
  test::CapturedLog log;
  KeptAlgorithms kept = open();
  EXPECT_EQ(kept.find("a", any), kOne);
  EXPECT_EQ(kept.find("b", any), std::nullopt);
  EXPECT_TRUE(log.has("is damaged"));
  kept.keep("b", kOther);
  EXPECT_EQ(open().find("b", any), kOther);
}

TEST_F(KeptAlgorithmsTest, AnotherFileIsLeftAlone) {
  std::filesystem::create_directories(file_.parent_path());
  write("somebody's\nnotes\n");
  test::CapturedLog log;
  KeptAlgorithms kept = open();
  EXPECT_FALSE(kept.can_keep());
  EXPECT_TRUE(log.has("no file of this kind"));
  EXPECT_EQ(kept.find("a", any), std::nullopt);
  EXPECT_EQ(content(), "somebody's\nnotes\n");
}

TEST_F(KeptAlgorithmsTest, WhereNothingCanBeWrittenNothingIsKept) {
  std::ofstream(directory_.path() / "cache") << "a file where the folder should be";
  test::CapturedLog log;
  EXPECT_FALSE(open().can_keep());
  EXPECT_TRUE(log.has("cannot be kept"));
  EXPECT_FALSE(KeptAlgorithms("", "GPU").can_keep());
}

TEST_F(KeptAlgorithmsTest, AFileThatGoesAwayIsToldOfAndNotWaitedFor) {
  KeptAlgorithms kept = open();
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  test::CapturedLog log;
  kept.keep("a", kOne);
  EXPECT_FALSE(kept.can_keep());
  EXPECT_EQ(kept.find("a", any), std::nullopt);
  EXPECT_TRUE(log.has("cannot be kept"));
}

TEST(KeptAlgorithmsFile, IsInTheUsersCache) {
  setenv("HOME", "/nobody", 1);
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(KeptAlgorithms::default_file(), "/cache/causeway/products");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(KeptAlgorithms::default_file(), "/nobody/.cache/causeway/products");
  unsetenv("HOME");
  EXPECT_EQ(KeptAlgorithms::default_file(), "");
}

}  // namespace
}  // namespace causeway::intra::cuda
