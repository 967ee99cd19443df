// What of a run can be computed again when its rounds were sharded, and what is refused before
// anything is computed or written.
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/config/config.h"
#include "apps/run/replay/credit.h"
#include "apps/run/replay/replay.h"
#include "apps/run/replay/replay_source.h"
#include "diloco/files/archive.h"
#include "diloco/files/file_io.h"
#include "inter/blob/spool_files.h"
#include "tests/apps/verify/past.h"

namespace causeway::run {
namespace {

using past::id_of;
using testing::HasSubstr;
using testing::StartsWith;

// Round 0 is full, rounds 1 and 2 are sharded.
class ShardedRounds : public past::VerifyTest {
 protected:
  ShardedRounds() { diloco::open_archive(east_, kSmallConfig); }

  void keep(const std::string& content) const {
    diloco::replace_file(inter::blob_path(diloco::archive_directory(east_), id_of(content)),
                         content, diloco::Durability::visible);
  }
  ReplaySource source() const { return {{east_}, certificates(), std::vector<std::string>{}}; }
  template <typename Call>
  std::string refusal_of(const Call& call) const {
    try {
      call();
    } catch (const ConfigError& error) {
      return error.what();
    } catch (const std::system_error& error) {
      return intra::message_of(error);
    }
    return "accepted";
  }

  const std::string first_ = "the first sum", second_ = "the second sum";
  const std::filesystem::path east_ =
      write({.name = "east", .decide = [this](diloco::CommitRecord& record) {
               if (record.round > 0) record.sums = {id_of(first_), id_of(second_)};
             }});
};

TEST_F(ShardedRounds, AreComputedFromTheirSumsInOrder) {
  keep(second_);
  keep(first_);
  const auto payloads = source().payloads(1);
  ASSERT_EQ(payloads.size(), 2U);
  EXPECT_EQ(inter::identify(payloads[0].bytes()), id_of(first_));
  EXPECT_EQ(inter::identify(payloads[1].bytes()), id_of(second_));
}

TEST_F(ShardedRounds, ASumThatIsNotKeptIsNamedByItsShard) {
  keep(first_);
  EXPECT_THAT(refusal_of([&] { source().payloads(2); }),
              StartsWith("the sum of shard 1 of round 2 (" + diloco::to_hex(id_of(second_).hash) +
                         ") is in none of these regions'"));
}

TEST_F(ShardedRounds, CannotBeWeightedOtherwise) {
  const std::filesystem::path model = directory_ / "model";
  ReplayOptions options;
  options.paths = {east_};
  options.certificates = certificates();
  options.model = model;
  options.changes = {{"east", 1, {}}};
  EXPECT_THAT(refusal_of([&] { replay(options); }),
              StartsWith("--without east@1: round 1 was sharded"));
  EXPECT_FALSE(std::filesystem::exists(model));
}

TEST_F(ShardedRounds, GiveNobodyCredit) {
  CreditOptions options{
      .paths = {east_}, .certificates = certificates(), .overrides = {}, .rounds = {}};
  const auto refusal = [&] { return refusal_of([&] { credit(options); }); };
  EXPECT_THAT(refusal(), StartsWith("--credit: round 1 was sharded"));
  options.rounds = RoundWindow{2, 2};
  EXPECT_THAT(refusal(), StartsWith("--credit: round 2 was sharded"));
  options.rounds = RoundWindow{0, 0};  // full; that model could not be validated here
  EXPECT_THAT(refusal(), HasSubstr("is not one of `causeway worker`"));
}

}  // namespace
}  // namespace causeway::run
