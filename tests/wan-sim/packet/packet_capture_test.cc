#include "wan-sim/packet/packet_capture.h"

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"
#include "wan-sim/packet/pcapng.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::uint32_t word(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string text_in(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class PacketCaptureTest : public testing::Test {
 protected:
  const test::TemporaryDirectory directory_;
  const Scenario scenario_ =
      parse_scenario("regions = ['a', 'b']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 1\n", "wan.toml");
  const std::array<std::uint8_t, 101> packet_{0x45};
  std::filesystem::path there() const { return directory_.path() / "a_to_b.pcapng"; }
};

TEST(Pcapng, ABlockIsAsLongAsItSaysAtBothEnds) {
  const std::string head = pcapng_head("a:b", 64);
  EXPECT_EQ(word(head, 0), 0x0a0d0d0aU);
  EXPECT_EQ(word(head, 8), 0x1a2b3c4dU);
  const std::uint32_t section = word(head, 4);
  EXPECT_EQ(word(head, section - 4), section);
  EXPECT_EQ(word(head, section), 1U);
  EXPECT_EQ(word(head, section + 8), 101U) << "raw IP";
  EXPECT_EQ(word(head, section + 12), 64U) << "the snap length";
  EXPECT_EQ(section + word(head, section + 4), head.size());

  const std::array<std::uint8_t, 70> ip{0x45};
  for (const std::string_view comment : {"", "lost", "it is lost"}) {
    std::string file;
    const PcapngPacket packet{ip, Time{0x1122334455667788}, comment};
    append_pcapng(file, packet, 65);
    EXPECT_EQ(file.size(), pcapng_bytes(packet, 65));
    EXPECT_EQ(word(file, 4), file.size());
    EXPECT_EQ(word(file, file.size() - 4), file.size());
    EXPECT_EQ(word(file, 12), 0x11223344U);
    EXPECT_EQ(word(file, 16), 0x55667788U);
    EXPECT_EQ(word(file, 20), 65U) << "kept";
    EXPECT_EQ(word(file, 24), 70U) << "as long as it was";
  }
}

TEST_F(PacketCaptureTest, WritesWhatWasGatheredBeforeAndAfterItsThreadBegan) {
  PacketCapture capture({.directory = directory_.path()}, scenario_);
  const std::size_t place = capture.place_of({"a", "b"});
  capture.add_arrived(place, packet_, 1s);
  capture.start();
  capture.on_time(2s);
  capture.add_arrived(place, packet_, 2s);
  capture.add_lost(place, packet_, 2s, "lost by chance");
  capture.finish();
  EXPECT_EQ(capture.state().arrived, 2U);
  EXPECT_EQ(capture.state().lost, 1U);
  const std::string lost = text_in(directory_.path() / "a_to_b.lost.pcapng");
  EXPECT_THAT(lost, HasSubstr("lost by chance"));
  EXPECT_EQ(capture.state().bytes, std::filesystem::file_size(there()) + lost.size());
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "b_to_a.pcapng"));
}

TEST_F(PacketCaptureTest, ReplacesTheFilesOfAnEarlierRunAndNoOthers) {
  std::ofstream(directory_.path() / "b_to_a.pcapng") << "earlier";
  std::ofstream(directory_.path() / "notes") << "mine";
  PacketCapture capture({.directory = directory_.path()}, scenario_);
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "b_to_a.pcapng"));
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "notes"));
}

TEST_F(PacketCaptureTest, RefusesADirectoryThatCannotBe) {
  std::ofstream(directory_.path() / "file") << "mine";
  try {
    PacketCapture capture({.directory = directory_.path() / "file" / "packets"}, scenario_);
    ADD_FAILURE() << "a directory below a file";
  } catch (const std::filesystem::filesystem_error& error) {
    EXPECT_THAT(error.path1().string(), HasSubstr("file/packets"));
  }
}

TEST_F(PacketCaptureTest, StopsAtItsSizeBetweenTwoPackets) {
  PacketCapture capture({.directory = directory_.path(), .bytes_max = 1000}, scenario_);
  capture.start();
  for (int i = 0; i < 100; ++i) capture.add_arrived(capture.place_of({"a", "b"}), packet_, 1s);
  capture.finish();
  EXPECT_THAT(capture.state().problem, HasSubstr("give a larger --pcap-mb"));
  EXPECT_EQ(capture.state().arrived + capture.state().left_out, 100U);
  EXPECT_EQ(std::filesystem::file_size(there()), capture.state().bytes);
  EXPECT_LE(capture.state().bytes, 1000U);
  EXPECT_GT(capture.state().bytes, 1000 - pcapng_bytes({packet_}, 65'535));
}

// The thread never runs, as if a disk took nothing.
TEST_F(PacketCaptureTest, ASlowDiskCostsPacketsAndNoMemory) {
  PacketCapture capture({.directory = directory_.path(), .waiting_bytes_max = 2000}, scenario_);
  for (int i = 0; i < 100; ++i) {
    capture.add_arrived(capture.place_of({"a", "b"}), packet_, 1s);
    capture.on_time(i * 1s);
  }
  EXPECT_EQ(capture.state().problem, "");
  EXPECT_EQ(capture.state().arrived + capture.state().left_out, 100U);
  EXPECT_LE(capture.state().bytes, 2000U);
  EXPECT_GT(capture.state().bytes, 2000 - pcapng_bytes({packet_}, 65'535));
}

TEST_F(PacketCaptureTest, AFullDiskIsToldAndCountsNothingAsWritten) {
  PacketCapture capture({.directory = directory_.path()}, scenario_);
  std::filesystem::create_symlink("/dev/full", there());
  capture.start();
  capture.add_arrived(capture.place_of({"a", "b"}), packet_, 1s);
  capture.add_arrived(capture.place_of({"b", "a"}), packet_, 1s);
  capture.finish();
  EXPECT_THAT(capture.state().problem, HasSubstr("a_to_b.pcapng: No space left on device"));
  EXPECT_EQ(capture.state().arrived, 1U) << "the other file has room";
  EXPECT_EQ(capture.state().left_out, 1U);
  EXPECT_EQ(capture.state().bytes, std::filesystem::file_size(directory_.path() / "b_to_a.pcapng"));
}

TEST_F(PacketCaptureTest, TakesNothingWhileItIsOff) {
  PacketCapture capture({.directory = directory_.path()}, scenario_);
  capture.turn(false);
  capture.add_arrived(capture.place_of({"a", "b"}), packet_, 1s);
  EXPECT_EQ(capture.state().arrived + capture.state().left_out, 0U);
  capture.turn(true);
  capture.add_arrived(capture.place_of({"a", "b"}), packet_, 1s);
  EXPECT_EQ(capture.state().arrived, 1U);
}

}  // namespace
}  // namespace causeway::wan_sim
