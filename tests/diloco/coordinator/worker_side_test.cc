#include "diloco/coordinator/worker_side.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diloco/files/file_io.h"
#include "tests/diloco/coordinator/lone_region.h"

namespace causeway::diloco::testing {
namespace {

class WorkerSideTest : public ::testing::Test {
 protected:
  void SetUp() override { region_.begin(); }

  // What the region wrote of other data, so far.
  std::vector<std::string> told() const {
    std::vector<std::string> texts;
    const std::string events = read_file(region_.options_.directory / "events.jsonl").value_or("");
    for (std::size_t at = 0; at < events.size();) {
      const std::size_t end = events.find('\n', at);
      const std::string line = events.substr(at, end - at);
      if (line.find("\"other_data\"") != std::string::npos) texts.push_back(line);
      at = end + 1;
    }
    return texts;
  }
  void attach(const DataDigest& trained_on, const DataDigest& now) {
    AttachRequest rank_0;
    rank_0.region = "a";
    rank_0.data.of_region = now;
    rank_0.trained_on = trained_on;
    side_.on_gathered(rank_0, {});
  }

  LoneRegion region_;
  WorkerSide side_{region_.context()};
  const DataDigest sample_{.sample = {1}};
  const DataDigest whole_{.sample = {1}, .whole = Digest{2}};
  const DataDigest other_{.sample = {1}, .whole = Digest{3}};
};

TEST_F(WorkerSideTest, NamesOtherDataByWhatIsKnownOfBoth) {
  attach(whole_, whole_);
  EXPECT_THAT(told(), ::testing::IsEmpty());
  attach(whole_, other_);
  ASSERT_THAT(told(), ::testing::SizeIs(1));
  EXPECT_THAT(told()[0], ::testing::HasSubstr("now 030000000000, before 020000000000"));
  attach(whole_, {.sample = {7}});
  ASSERT_THAT(told(), ::testing::SizeIs(2));
  EXPECT_THAT(told()[1],
              ::testing::HasSubstr("now a sample: 070000000000, before a sample: 010000000000"));
}

TEST_F(WorkerSideTest, NamesOtherDataOnceAllAreReadAndThenNoMore) {
  attach(whole_, sample_);
  EXPECT_THAT(told(), ::testing::IsEmpty()) << "by the sample they may be the same";
  for (int times = 0; times < 2; ++times) side_.on_data_read({.of_region = other_, .of_run = {}});
  EXPECT_THAT(told(), ::testing::SizeIs(1));
}

}  // namespace
}  // namespace causeway::diloco::testing
