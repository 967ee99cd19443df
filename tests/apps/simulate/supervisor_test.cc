#include "apps/run/simulate/supervisor.h"

#include <csignal>
#include <fstream>
#include <future>

#include <sys/stat.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/read_until.hpp>
#include <asio/streambuf.hpp>
#include <asio/use_future.hpp>

#include "apps/run/region/region_files.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using std::chrono::milliseconds;

TEST(RestartPolicy, WaitsTwiceAsLongAfterEachDeathInARow) {
  RestartPolicy policy;
  EXPECT_EQ(policy.on_death(0), milliseconds(500));
  EXPECT_EQ(policy.on_death(0), milliseconds(1000));
  EXPECT_EQ(policy.on_death(0), milliseconds(2000));
}

TEST(RestartPolicy, NeverWaitsLongerThanHalfAMinute) {
  RestartPolicy policy;
  milliseconds last{};
  for (int i = 0; i < 10; ++i) last = policy.on_death(0).value();
  EXPECT_EQ(last, milliseconds(30'000));
}

TEST(RestartPolicy, GivesUpAfterTenDeathsInARow) {
  RestartPolicy policy;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(policy.on_death(3));
  EXPECT_FALSE(policy.on_death(3));
}

TEST(RestartPolicy, ProgressStartsOver) {
  RestartPolicy policy;
  for (int i = 0; i < 10; ++i) policy.on_death(3);
  EXPECT_EQ(policy.on_death(4), milliseconds(500));
  EXPECT_EQ(policy.on_death(2), milliseconds(1000));  // falling back is no progress
}

TEST(FirstStarts, GiveUpWhatFailsByItselfFiveTimesBeforeItsRegionDidAnything) {
  const ExitStatus failed{.code = 1}, killed{.signal = SIGKILL}, refused{.code = 3};
  FirstStarts starts;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(starts.judge(failed, false).kind, Ending::Kind::crashed);
  const Ending last = starts.judge(failed, false);
  EXPECT_EQ(last.kind, Ending::Kind::final);
  EXPECT_EQ(last.exit_code, 1);
  EXPECT_EQ(last.note, ", 5 times in a row before its region did anything");
  EXPECT_EQ(FirstStarts().judge(refused, false).kind, Ending::Kind::final) << "at once, as ever";
  FirstStarts others;  // somebody kills it, or it had worked
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(others.judge(failed, i % 2 == 0).kind, Ending::Kind::crashed);
    EXPECT_EQ(others.judge(killed, false).kind, Ending::Kind::crashed);
  }
}

TEST(EarlyEnds, GiveUpAProgramThatEndsWellThreeTimesAtTheSameRound) {
  const ExitStatus well{.code = 0}, failed{.code = 1};
  EarlyEnds ends;
  EXPECT_EQ(ends.on_end(well, 4), std::nullopt);
  EXPECT_EQ(ends.on_end(well, 4), std::nullopt);
  EXPECT_EQ(ends.on_end(well, 4),
            " before the run was over, 3 times in a row without a round in between: it must train "
            "until the run says that it is over");
  EarlyEnds others;  // some epochs in each life, or a failure in between
  for (std::uint64_t version = 0; version < 20; ++version) {
    EXPECT_EQ(others.on_end(well, version), std::nullopt);
    EXPECT_EQ(others.on_end(well, version), std::nullopt);
    if (version % 2 == 0) {
      EXPECT_EQ(others.on_end(failed, version), std::nullopt);
      EXPECT_EQ(others.on_end(well, version), std::nullopt);
    }
  }
}

class SupervisorTest : public testing::Test {
 protected:
  Supervised shell(const std::string& label, const std::string& script) {
    ProcessOptions options{{"/bin/sh", "-c", script}, {}, directory_ / (label + ".log"), {}};
    return {label, [options] { return options; }, [] { return std::uint64_t{0}; }};
  }

  SupervisionOutcome run(Supervisor& supervisor) {
    std::future<SupervisionOutcome> outcome =
        asio::co_spawn(context_, supervisor.run(), asio::use_future);
    context_.run();
    return outcome.get();
  }

  SupervisionOutcome run(std::vector<Supervised> processes, Supervisor::Options options = {}) {
    options.first_pause = milliseconds(1);
    Supervisor supervisor(context_.get_executor(), std::move(processes), std::move(options));
    const SupervisionOutcome outcome = run(supervisor);
    restarts_ = supervisor.restarts();
    return outcome;
  }

  // Calls `then` once a process has written a line there.
  void when_written(const std::string& fifo, std::function<void()> then) {
    ready_.assign(::open((directory_ / fifo).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    asio::async_read_until(ready_, line_, '\n',
                           [this, then](const asio::error_code& error, std::size_t) {
                             ready_.close();
                             if (!error) then();
                           });
  }

  TemporaryDirectory directory_;
  asio::io_context context_{1};
  asio::posix::stream_descriptor ready_{context_};
  asio::streambuf line_;
  std::uint32_t restarts_ = 0;
};

TEST_F(SupervisorTest, EndsWhenAllHaveEndedWell) {
  const SupervisionOutcome outcome = run({shell("a", "exit 0"), shell("b", "exit 0")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(restarts_, 0U);
}

TEST_F(SupervisorTest, StartsAKilledProcessAgain) {
  const std::string mark = (directory_ / "mark").string();
  std::vector<std::string> causes;
  Supervisor::Options options;
  options.on_restart = [&](const Death& death) {
    causes.push_back(death.process.label + " " + to_string(death.status) + " " +
                     std::to_string(death.pause.count()));
  };
  const SupervisionOutcome outcome =
      run({shell("a", "test -e " + mark + " && exit 0; : > " + mark + "; kill -9 $$")}, options);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(restarts_, 1U);
  EXPECT_THAT(causes, testing::ElementsAre("a killed by signal 9 (Killed) 1"));
}

TEST_F(SupervisorTest, WhoEndsForWantOfRoomTellsSoByTheRunsExitCode) {
  Supervisor::Options options;
  options.restart = false;
  EXPECT_EQ(run({shell("a", "exit 5")}, options).exit_code, 5);
  context_.restart();
  EXPECT_EQ(run({shell("b", "exit 75")}, options).exit_code, 1);
}

// As the kernel counts them.
TEST_F(SupervisorTest, NamesTheKernelsMemoryKillerAndGivesUpAtItsThirdKill) {
  const std::filesystem::path kills = directory_ / "kills";
  std::vector<std::string> causes;
  Supervisor::Options options;
  options.memory_kills = [&kills] {
    return std::filesystem::exists(kills) ? std::filesystem::file_size(kills) : 0;
  };
  options.on_restart = [&](const Death& death) { causes.push_back(to_string(death.status)); };
  const SupervisionOutcome outcome =
      run({shell("a", "printf . >> " + kills.string() + "; kill -9 $$")}, options);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(causes, testing::Each("killed by the kernel, which had no memory left for it"));
  EXPECT_EQ(restarts_, 2U);
  EXPECT_THAT(outcome.problem,
              testing::HasSubstr("a was killed by the kernel, which had no memory left for it, 3 "
                                 "times: end what else needs memory here"));
}

// One of two was the kernel's.
TEST_F(SupervisorTest, AKillThatTheKernelDoesNotCountIsSomebodyElses) {
  const std::string mark = (directory_ / "mark").string();
  std::uint64_t kills = 7;
  std::vector<std::string> causes;
  Supervisor::Options options;
  options.memory_kills = [&kills] { return kills; };
  options.on_restart = [&](const Death& death) {
    causes.push_back(to_string(death.status));
    kills = 8;
  };
  run({shell("a", "test -e " + mark + ".3 && exit 0; test -e " + mark + " && : > " + mark +
                      ".3; : > " + mark + "; kill -9 $$")},
      options);
  EXPECT_THAT(causes,
              testing::ElementsAre("killed by signal 9 (Killed)",
                                   "killed by the kernel, which had no memory left for it"));
}

TEST_F(SupervisorTest, WhoStartsAProgramJudgesWhatItsEndMeans) {
  Supervised process = shell("a", "exit 4");
  process.shown = "a (`exit 4`)";
  int ends = 0;
  process.judge = [&ends](const ExitStatus& status) {
    EXPECT_EQ(status.code, 4);
    if (++ends < 3) return Ending{Ending::Kind::crashed, 1};
    return Ending{Ending::Kind::final, 2, " before noon", true};
  };
  const SupervisionOutcome outcome = run({process});
  EXPECT_EQ(restarts_, 2U);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.problem, "a (`exit 4`) ended with exit code 4 before noon");
  EXPECT_TRUE(outcome.mendable);
}

TEST_F(SupervisorTest, AsksForTheCommandBeforeEveryStart) {
  int starts = 0;
  Supervised process = shell("a", "");
  process.command = [&] {
    ++starts;
    return ProcessOptions{
        {"/bin/sh", "-c", starts == 1 ? "exit 1" : "exit 0"}, {}, directory_ / "log", {}};
  };
  EXPECT_EQ(run({process}).exit_code, 0);
  EXPECT_EQ(starts, 2);
}

TEST_F(SupervisorTest, ConfigurationLinkAndLineageFailuresEndTheRun) {
  for (const int code : {2, 3, 4}) {
    context_.restart();
    const SupervisionOutcome outcome =
        run({shell("other", "exec sleep 1000"), shell("bad", "exit " + std::to_string(code))});
    EXPECT_EQ(outcome.exit_code, code);
    EXPECT_EQ(outcome.label, "bad");
    EXPECT_EQ(outcome.problem, "bad ended with exit code " + std::to_string(code));
    EXPECT_EQ(outcome.log, directory_ / "bad.log");
    EXPECT_EQ(restarts_, 0U);
  }
}

TEST_F(SupervisorTest, WhoIgnoresTheEndIsKilledAfterTheDeadline) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  Supervisor::Options options;
  options.stop_deadline = milliseconds(1);
  const std::string fifo = (directory_ / "ready").string();
  const SupervisionOutcome outcome =
      run({shell("stubborn", "trap '' INT; echo > " + fifo + "; while :; do sleep 0.01; done"),
           shell("bad", "read line < " + fifo + "; exit 4")},
          options);
  EXPECT_EQ(outcome.exit_code, 4);
}

TEST_F(SupervisorTest, WithoutRestartAnyDeathEndsTheRun) {
  Supervisor::Options options;
  options.restart = false;
  const SupervisionOutcome outcome =
      run({shell("a", "kill -9 $$"), shell("b", "exec sleep 1000")}, options);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.problem, "a ended with killed by signal 9 (Killed)");
}

TEST_F(SupervisorTest, AProgramThatCannotBeStartedEndsTheRun) {
  Supervised process = shell("a", "");
  process.command = [&] {
    return ProcessOptions{{"/nonexistent/program"}, {}, directory_ / "log", {}};
  };
  const SupervisionOutcome outcome = run({process, shell("b", "exec sleep 1000")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.problem, testing::HasSubstr("/nonexistent/program"));
}

TEST_F(SupervisorTest, WhoIsHeldDownStartsAgainWhenToldTo) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  const std::string fifo = (directory_ / "ready").string(), mark = (directory_ / "mark").string();
  const std::string script =
      "test -e " + mark + " && exit 0; : > " + mark + "; echo > " + fifo + "; exec sleep 1000";
  Supervisor supervisor(context_.get_executor(), {shell("a", script)}, {});
  const auto all = [](const Supervised&) { return true; };
  when_written("ready", [&] {
    supervisor.hold_down(all);
    supervisor.restart(all);
  });
  EXPECT_EQ(run(supervisor).exit_code, 0);
  EXPECT_EQ(supervisor.restarts(), 1U);
}

TEST_F(SupervisorTest, WhoIsStillHeldDownWhenTheOthersHaveEndedEndsTheRun) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  const std::string fifo = (directory_ / "ready").string(), mark = (directory_ / "mark").string();
  Supervisor supervisor(context_.get_executor(),
                        {shell("a", "echo > " + fifo + "; exec sleep 1000"),
                         shell("b", "until test -e " + mark + "; do sleep 0.01; done")},
                        {});
  when_written("ready", [&] {
    supervisor.hold_down([](const Supervised& process) { return process.label == "a"; });
    std::ofstream(mark).put('x');
  });
  const SupervisionOutcome outcome = run(supervisor);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.label, "a");
  EXPECT_THAT(outcome.problem, testing::HasSubstr("killed on purpose"));
}

TEST_F(SupervisorTest, WhoIsTheLastToGoDownEndsTheRun) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  const std::string fifo = (directory_ / "ready").string();
  Supervisor supervisor(context_.get_executor(),
                        {shell("a", "echo > " + fifo + "; exec sleep 1000")}, {});
  when_written("ready", [&] { supervisor.hold_down([](const Supervised&) { return true; }); });
  EXPECT_EQ(run(supervisor).exit_code, 3);
}

TEST_F(SupervisorTest, WhoIsRestartedOnPurposeIsStartedAtOnce) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  const std::string fifo = (directory_ / "ready").string(), mark = (directory_ / "mark").string();
  Supervisor::Options options;
  std::vector<std::chrono::milliseconds> pauses;
  options.on_restart = [&](const Death& death) { pauses.push_back(death.pause); };
  Supervisor supervisor(context_.get_executor(),
                        {shell("a", "test -e " + mark + " && exit 0; : > " + mark + "; echo > " +
                                        fifo + "; kill -STOP $$; exit 1")},
                        options);
  when_written("ready", [&] { supervisor.restart([](const Supervised&) { return true; }); });
  EXPECT_EQ(run(supervisor).exit_code, 0);
  EXPECT_THAT(pauses, testing::ElementsAre(milliseconds(0)));
}

TEST_F(SupervisorTest, InterruptLetsAllSaveAndRestartsNothing) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  const std::string fifo = (directory_ / "ready").string();
  const std::string saved = (directory_ / "saved").string();
  Supervisor supervisor(context_.get_executor(),
                        {shell("a", "trap 'echo yes > " + saved + "; exit 130' INT; echo > " +
                                        fifo + "; while :; do sleep 0.01; done"),
                         shell("b", "kill -9 $$")},
                        {});
  when_written("ready", [&] { supervisor.interrupt(); });
  const SupervisionOutcome outcome = run(supervisor);
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_THAT(outcome.problem, ::testing::Not(::testing::HasSubstr("a ended")));
  EXPECT_EQ(read_text_file(saved), "yes\n");
}

TEST_F(SupervisorTest, KillEndsEvenThoseThatDoNotListen) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  const std::string fifo = (directory_ / "ready").string();
  Supervisor supervisor(
      context_.get_executor(),
      {shell("a", "trap '' INT; echo > " + fifo + "; while :; do sleep 0.01; done")}, {});
  when_written("ready", [&] {
    supervisor.interrupt();
    supervisor.kill();
  });
  const SupervisionOutcome outcome = run(supervisor);
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_THAT(outcome.problem, ::testing::HasSubstr("a ended with killed by signal 9"));
  EXPECT_THAT(outcome.problem, ::testing::HasSubstr("before it had saved"));
}

}  // namespace
}  // namespace causeway::run
