#include "diloco/coordinator/archive_fill.h"

#include <gtest/gtest.h>

#include <utility>

#include "diloco/files/archive.h"
#include "inter/blob/spool_files.h"
#include "tests/support/captured_log.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Asked = std::vector<std::pair<std::string, inter::BlobId>>;

// A region that keeps everything, and was not there for rounds 0 to 2, of one payload each.
class ArchiveFillTest : public ::testing::Test {
 protected:
  ArchiveFillTest() {
    open_archive(region_, "");
    inter::Spool elsewhere(directory_.path() / "elsewhere", 1U << 20);
    ledger_.set_run_id("run-1");
    for (Round round = 0; round < 3; ++round) {
      payloads_.push_back(elsewhere.put(content(round)));
      const LogEntry entry{
          .term = 1,
          .body = CommitRecord{.run_id = "run-1",
                               .round = round,
                               .participants = {{.region = "b", .payload = payloads_.back()}}}};
      ledger_.append(std::span(&entry, 1));
    }
  }

  static std::vector<std::byte> content(Round round) {
    return std::vector<std::byte>(100, static_cast<std::byte>(round));
  }
  Asked look(Round applied, const std::vector<std::string>& up = {"b", "c"}) {
    asked_.clear();
    fill_.look(applied, up, now_);
    return asked_;
  }
  bool is_archived(Round round) const {
    return exists(inter::blob_path(archive_directory(region_), payloads_[round]));
  }

  test::TemporaryDirectory directory_;
  const std::filesystem::path region_ = directory_.path() / "a";
  Ledger ledger_{region_ / "ledger"};
  inter::Spool spool_{region_ / "spool", 1U << 20};
  std::vector<inter::BlobId> payloads_;
  Asked asked_;
  ArchiveFill fill_{region_, ledger_, spool_, [this](const auto& peer, const auto& blob) {
                      asked_.emplace_back(peer, blob);
                    }};
  ArchiveFill::TimePoint now_{minutes{1}};
};

TEST_F(ArchiveFillTest, AsksForWhatTheWorkerIsBeyondAndKeepsWhatComes) {
  EXPECT_EQ(look(0), Asked()) << "what the worker still needs, it fetches itself";
  const Asked both = look(2);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(look(2), Asked()) << "once, for a while";
  spool_.put(content(0));
  EXPECT_EQ(look(2), Asked());
  EXPECT_TRUE(is_archived(0));
  EXPECT_FALSE(is_archived(1));
  spool_.remove(payloads_[0]);  // as nothing there names it
  EXPECT_TRUE(is_archived(0));
  now_ += seconds{6};
  EXPECT_EQ(look(2), (Asked{{"c", payloads_[1]}})) << "the next peer";
  spool_.put(content(1));
  look(2);
  EXPECT_TRUE(is_archived(1));
  EXPECT_EQ(look(3), (Asked{{"b", payloads_[2]}}));
}

// Rounds may be faster than whatever looks: nothing else names it.
TEST_F(ArchiveFillTest, WhatTheSpoolLetsGoOfIsKeptOrAwaitedFirst) {
  EXPECT_FALSE(fill_.awaits(payloads_[0])) << "it is not fetched";
  look(2);
  spool_.expect(payloads_[0]);
  EXPECT_TRUE(fill_.awaits(payloads_[0]));
  spool_.put(content(0));
  EXPECT_FALSE(fill_.awaits(payloads_[0]));
  EXPECT_TRUE(is_archived(0));
}

TEST_F(ArchiveFillTest, SaysOnceWhatNobodyHasAndAsksForItAgainLater) {
  const test::CapturedLog log;
  std::size_t asked = 0;
  for (int turn = 0; turn < 11; ++turn, now_ += seconds{5}) asked += look(1).size();
  EXPECT_EQ(asked, 4U) << "each of two peers twice";
  for (int turn = 0; turn < 100; ++turn, now_ += seconds{5}) asked += look(1).size();
  EXPECT_GT(asked, 4U) << "and again after a minute";
  EXPECT_EQ(log.count("no region within reach has it"), 1U);
}

TEST_F(ArchiveFillTest, WhatIsArchivedIsSentToOthersToo) {
  spool_.put(content(0));
  archive(region_, spool_.path(payloads_[0]));
  spool_.remove(payloads_[0]);
  EXPECT_FALSE(spool_.has(payloads_[0]));
  EXPECT_TRUE(spool_.can_send(payloads_[0]));
  EXPECT_EQ(spool_.read(payloads_[0], 0, 100), content(0));
  EXPECT_FALSE(spool_.can_send(payloads_[1]));
}

}  // namespace
}  // namespace causeway::diloco
