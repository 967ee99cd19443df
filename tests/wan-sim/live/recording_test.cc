#include "wan-sim/live/recording.h"

#include <unistd.h>

#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "tests/support/temporary_directory.h"
#include "wan-sim/base/error.h"
#include "wan-sim/live/control.h"
#include "wan-sim/relay/relay.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::string kText =
    "regions = ['a', 'b']\n[defaults]\nrtt_ms = 2\nrate_mbit_s = 800\n"
    "[[event]]\nat_s = 9\nfault = 'reset'\n";

class RecordingTest : public testing::Test {
 protected:
  Scenario refused(const std::string& text, const std::string& what) {
    try {
      const Scenario scenario = parse_recording(text, "run.jsonl");
      ADD_FAILURE() << "accepted: " << text;
      return scenario;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::bad_scenario);
      EXPECT_THAT(error.what(), HasSubstr(what));
      return {};
    }
  }
  std::filesystem::path file_ = std::filesystem::path(testing::TempDir()) /
                                ("recording" + std::to_string(::getpid()) + ".jsonl");
  ~RecordingTest() override { std::filesystem::remove(file_); }
};

TEST_F(RecordingTest, WhatWasDoneByHandIsOnTheTimelineOfTheReplay) {
  const Scenario scenario = parse_scenario(kText, "test.toml");
  {
    asio::io_context context(1);
    Recording recording(file_, scenario);
    RelayOptions options;
    options.on_event = [&](const WanEvent& event) { recording.add(event); };
    Relay relay(context.get_executor(), scenario, options);
    relay.command("fault = 'black-hole', link = ['a', 'b'], for_s = 3");
    EXPECT_THROW(relay.command("fault = 'melt'"), std::system_error);
    recording.add(1s, relay.stats());
    recording.add(1s, relay.verdict());
  }
  const Scenario replay = load_recording(file_);
  ASSERT_EQ(replay.timeline.size(), 3U);
  EXPECT_EQ(std::get<Fault>(replay.timeline[0].action.what).kind, FaultKind::black_hole);
  EXPECT_EQ(replay.timeline[1].at - replay.timeline[0].at, 3s);
  EXPECT_EQ(replay.timeline[2].at, 9s);
}

TEST_F(RecordingTest, SaysWhatIsWrongWithARecording) {
  refused("", "run.jsonl:1: is empty");
  refused("not json\n", "run.jsonl:1: is not a JSON object");
  refused("{}\n", "is not a recording");
  const std::string head =
      R"({"format":"causeway-wan-1","file":"x.toml","scenario":"regions = ['a', 'b']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 1\n"})"
      "\n";
  EXPECT_EQ(parse_recording(head, "x").regions.size(), 2U);
  refused(head + "{\"t\":1}\n", "run.jsonl:2: needs the string \"event\"");
  refused(head + "{\"event\":\"commanded\",\"text\":\"fault = 'reset'\"}\n", ":2: needs \"t\"");
  refused(head + "{\"event\":\"commanded\",\"t\":1,\"text\":\"melt = 1\"}\n", "unknown key 'melt'");
  refused(R"({"format":"causeway-wan-1","file":"x.toml"})", "needs the string \"scenario\"");
}

TEST_F(RecordingTest, AnEngineRefusesWhatAnotherOneWasTold) {
  const Scenario scenario = parse_scenario(kText, "test.toml");
  {
    Recording recording(file_, scenario);
    recording.add({WanEvent::Kind::commanded, 1s, {}, 0, "reorder = 0.1"});
  }
  const Scenario replay = load_recording(file_);
  EXPECT_EQ(replay.timeline.size(), 2U);
  try {
    require_honoured(replay, Engine::virtual_chunks);
    ADD_FAILURE() << "the virtual engine reorders nothing";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr(file_.string() + ":2: "));
    EXPECT_THAT(error.what(), HasSubstr("cannot honour reorder"));
  }
}

TEST(ControlSocket, AnswersOneLineWithOneLineAndLeavesNothingBehind) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("control" + std::to_string(::getpid()) + ".sock");
  asio::io_context context(1);
  auto work = asio::make_work_guard(context);
  auto socket = std::make_unique<ControlSocket>(
      context.get_executor(), path, [](const std::string& line) -> std::string {
        if (line == "bad") throw std::system_error(Errc::bad_scenario, "no");
        return "got " + line;
      });
  std::thread thread([&] { context.run(); });
  EXPECT_EQ(tell(path, "hello"), "got hello");
  EXPECT_THAT(tell(path, "bad"), testing::StartsWith("error: no"));
  EXPECT_THROW(ControlSocket(context.get_executor(), path, {}), std::system_error);
  asio::post(context, [&] {
    socket->stop();
    work.reset();
  });
  thread.join();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(tell(path, "hello"), std::system_error);
}

TEST(ControlSocket, TakesNoFilesPlace) {
  const test::TemporaryDirectory directory;
  const auto path = directory.path() / "notes.txt";
  std::ofstream(path) << "precious";
  asio::io_context context(1);
  EXPECT_THROW(ControlSocket(context.get_executor(), path, {}), std::system_error);
  EXPECT_EQ(std::filesystem::file_size(path), 8U);
}

TEST(Recording, ADirectoryIsNone) {
  const test::TemporaryDirectory directory;
  try {
    load_recording(directory.path());
    ADD_FAILURE() << "a directory was read";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_scenario);
  }
}

}  // namespace
}  // namespace causeway::wan_sim
