// What a record needs to be applied is the payloads of its regions, or their sums.
#include "apps/run/verify/applied_payloads.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/config/config.h"
#include "apps/run/region/shard_tools.h"
#include "compression/base/chunk.h"
#include "compression/codecs/payload.h"
#include "diloco/files/archive.h"
#include "diloco/files/file_io.h"
#include "inter/blob/spool_files.h"
#include "tests/apps/verify/past.h"

namespace causeway::run {
namespace {

using past::id_of;
using past::record_of;
using testing::Contains;
using testing::HasSubstr;

std::vector<std::string> names_of(const diloco::CommitRecord& record) {
  std::vector<std::string> names;
  for (const NamedPayload& one : applied_payloads(record)) names.push_back(one.name);
  return names;
}

TEST(AppliedPayloads, AreThoseOfItsRegionsOrTheirSums) {
  diloco::CommitRecord record = record_of(7);
  EXPECT_THAT(names_of(record), testing::ElementsAre("the payload of east in round 7",
                                                     "the payload of west in round 7"));
  EXPECT_NO_THROW(require_contributions(record, "--credit"));
  record.sums = {id_of("a sum"), id_of("another"), id_of("a third")};
  EXPECT_THAT(names_of(record),
              testing::ElementsAre("the sum of shard 0 of round 7", "the sum of shard 1 of round 7",
                                   "the sum of shard 2 of round 7"));
  EXPECT_EQ(applied_payloads(record)[1].blob, id_of("another"));
  EXPECT_THROW(require_contributions(record, "--credit"), ConfigError);
}

// Of a payload of so many segments.
std::vector<std::byte> payload_of(std::uint32_t segments) {
  const std::vector<std::byte> zeros(4 * compression::kChunk);
  const std::vector<std::string> specs{"dense:fp32"};
  std::vector<compression::EncodedSegment> encoded;
  for (std::uint32_t i = 0; i < segments; ++i)
    encoded.push_back(
        {.index = i, .element_count = compression::kChunk, .codec = 0, .bytes = zeros});
  return compression::write_payload(specs, encoded);
}

// What the coordinator made of it when it was contributed.
diloco::CommitRecord sharded_record_of(std::span<const std::byte> payload) {
  diloco::CommitRecord record = record_of(7);
  std::vector<inter::BlobId> shards;
  for (const auto& shard : shard_tools().cut(payload)) shards.push_back(inter::identify(shard));
  record.participants[0].payload = diloco::whole_of(shards);
  record.sums.resize(shards.size());
  return record;
}

TEST(AppliedPayloads, APayloadIsNamedByItsShardsWhereTheRoundWasSharded) {
  for (const std::uint32_t segments : {1U, 3U, 64U, 150U}) {
    const auto payload = payload_of(segments);
    diloco::CommitRecord record = sharded_record_of(payload);
    EXPECT_EQ(record.sums.size(), segments < 150 ? 1 : 2);  // of 2^18 elements at least
    EXPECT_EQ(listed_hash(payload, record), record.participants[0].payload.hash) << segments;
    record.sums.clear();
    EXPECT_EQ(listed_hash(payload, record), inter::identify(payload).hash);
  }
}

// Round 1 of its three is sharded; the archive has its first sum, and nothing else.
class KeptSums : public past::VerifyTest {
 protected:
  KeptSums() {
    diloco::open_archive(east_, "");
    keep(first_);
  }
  void keep(const std::string& content) const {
    diloco::replace_file(file_, content, diloco::Durability::visible);
  }

  const std::string first_ = "the first sum", second_ = "the second sum";
  const std::filesystem::path east_ =
      write({.name = "east", .decide = [this](diloco::CommitRecord& record) {
               if (record.round == 1) record.sums = {id_of(first_), id_of(second_)};
             }});
  const std::filesystem::path file_ =
      inter::blob_path(diloco::archive_directory(east_), id_of(first_));
};

TEST_F(KeptSums, AreCountedInPlaceOfThePayloads) {
  const Verification found = verify({east_}, certificates());
  EXPECT_TRUE(found.same);
  EXPECT_THAT(
      found.covered,
      Contains("payloads: 1 of 6 are here and are what the records list (2 of these as sums "
               "of shards)"));
  EXPECT_THAT(found.lines, Contains(HasSubstr("MISSING: 5 payloads although")));
}

TEST_F(KeptSums, ADamagedOneIsNamedByItsShard) {
  keep("the fIrst sum");
  const Verification found = verify({east_}, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains(HasSubstr("the sum of shard 0 of round 1: " + file_.string() +
                                              " is damaged")));
}

}  // namespace
}  // namespace causeway::run
