#include "apps/run/watch/tensorboard.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/watch/event.pb.h"
#include "tests/apps/temporary.h"
#include "tests/support/process_limits.h"

namespace causeway::run {
namespace {

template <typename T>
T read_at(const std::string& bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Parses the framing anew, checking every length and checksum.
std::vector<tensorboard::Event> parse(const std::string& bytes) {
  std::vector<tensorboard::Event> events;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto length = read_at<std::uint64_t>(bytes, at);
    EXPECT_EQ(read_at<std::uint32_t>(bytes, at + 8), masked_crc32c(bytes.substr(at, 8)));
    const std::string payload = bytes.substr(at + 12, length);
    EXPECT_EQ(read_at<std::uint32_t>(bytes, at + 12 + length), masked_crc32c(payload));
    events.emplace_back();
    EXPECT_TRUE(events.back().ParseFromString(payload));
    at += 16 + length;
  }
  return events;
}

TEST(Crc32c, AgreesWithRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
}

TEST(Tensorboard, RecordIsFramedByLengthAndChecksums) {
  const std::string record = frame_record("abc");
  ASSERT_EQ(record.size(), 8U + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

TEST(Tensorboard, FileBeginsWithItsVersionAndHoldsTheScalars) {
  const TemporaryDirectory directory;
  Tensorboard board(directory.path(), 1000);
  board.add({.time_s = 2,
             .region = "east",
             .step = 10,
             .version = 1,
             .wan_tx_bytes = 1000,
             .loss = 2.5,
             .tokens_per_s = 100,
             .val_loss = 3.5});
  board.add({.time_s = 3, .region = "west", .step = 5, .tokens_per_s = 50});
  board.write();
  const auto events =
      parse(read_text_file(directory / "tensorboard/east/events.out.tfevents.0.causeway"));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].step(), 10);
  EXPECT_EQ(events[1].wall_time(), 1002);
  std::map<std::string, float> scalars;
  for (const auto& value : events[1].summary().value()) scalars[value.tag()] = value.simple_value();
  EXPECT_THAT(scalars, testing::ElementsAre(
                           testing::Pair("loss", 2.5F), testing::Pair("tokens_per_s", 100.0F),
                           testing::Pair("val_loss", 3.5F), testing::Pair("wan_bytes", 1000.0F)));
  EXPECT_EQ(
      parse(read_text_file(directory / "tensorboard/west/events.out.tfevents.0.causeway")).size(),
      2U);
}

TEST(Tensorboard, ALossMayBeZeroOrLessAndIsLeftOutWhereItIsNotKnown) {
  const TemporaryDirectory directory;
  Tensorboard board(directory.path(), 1000);
  board.add({.time_s = 1, .region = "east", .step = 1});
  board.add({.time_s = 2, .region = "east", .step = 2, .loss = 0});
  board.add({.time_s = 3, .region = "east", .step = 3, .loss = -1.5});
  board.write();
  std::vector<float> losses;
  for (const auto& event :
       parse(read_text_file(directory / "tensorboard/east/events.out.tfevents.0.causeway"))) {
    for (const auto& value : event.summary().value())
      if (value.tag() == "loss") losses.push_back(value.simple_value());
  }
  EXPECT_THAT(losses, testing::ElementsAre(0.0F, -1.5F));
}

TEST(Tensorboard, ARecordThatADiskRefusesInTheMiddleIsWrittenWholeLater) {
  const TemporaryDirectory directory;
  const auto file = directory / "tensorboard/east/events.out.tfevents.0.causeway";
  Tensorboard board(directory.path(), 1000);
  board.add({.region = "east", .step = 1});
  board.write();
  {
    const test::FullDisk full(std::filesystem::file_size(file) + 10);
    board.add({.region = "east", .step = 2});
    EXPECT_THROW(board.write(), std::system_error);
  }
  board.add({.region = "east", .step = 3});
  board.write();
  std::vector<std::int64_t> steps;
  for (const auto& event : parse(read_text_file(file))) steps.push_back(event.step());
  EXPECT_THAT(steps, testing::ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace causeway::run
