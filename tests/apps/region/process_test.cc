#include "apps/run/region/process.h"

#include <csignal>
#include <future>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 forgot to say that these are C functions
}

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_future.hpp>

#include "apps/run/region/region_files.h"
#include "tests/apps/temporary.h"
#include "tests/support/process_limits.h"

namespace causeway::run {
namespace {

ProcessOptions shell(const TemporaryDirectory& directory, const std::string& script) {
  return {{"/bin/sh", "-c", script}, {}, directory / "log", {}};
}

ExitStatus wait_for(asio::io_context& context, Process& process) {
  std::future<ExitStatus> status = asio::co_spawn(context, process.wait(), asio::use_future);
  context.restart();
  context.run();
  return status.get();
}

ExitStatus run_to_end(const ProcessOptions& options) {
  asio::io_context context(1);
  Process process(context.get_executor(), options);
  return wait_for(context, process);
}

// Blocks until the process whose id the script wrote there is gone.
void expect_gone(const std::filesystem::path& pid_file) {
  const pid_t pid = std::stoi(read_text_file(pid_file));
  const int fd = ::pidfd_open(pid, 0);
  if (fd < 0) return;  // already reaped
  pollfd poll{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 60'000), 1) << "it still runs";
  ::close(fd);
}

// Opening a fifo for reading returns once the other side has opened it for writing.
std::string read_fifo(const std::filesystem::path& fifo) {
  return read_text_file(fifo);
}

TEST(Process, ReportsItsExitCode) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(run_to_end(shell(directory, "exit 0")).ok());
  const ExitStatus status = run_to_end(shell(directory, "exit 4"));
  EXPECT_EQ(status.code, 4);
  EXPECT_EQ(to_string(status), "exit code 4");
}

TEST(Process, ReportsTheSignalThatKilledIt) {
  const TemporaryDirectory directory;
  const ExitStatus status = run_to_end(shell(directory, "kill -9 $$"));
  EXPECT_EQ(status.signal, SIGKILL);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(to_string(status), "killed by signal 9 (Killed)");
}

TEST(Process, OutputAndErrorsGoToTheLogOneRunAfterTheOther) {
  const TemporaryDirectory directory;
  run_to_end(shell(directory, "echo one; echo two >&2"));
  run_to_end(shell(directory, "echo three"));
  EXPECT_EQ(read_text_file(directory / "log"), "one\ntwo\nthree\n");
}

TEST(Process, WithDescendantsAKillReachesThoseInOtherSessions) {
  const TemporaryDirectory directory;
  const std::string ready = (directory / "ready").string(), pid = (directory / "pid").string();
  ASSERT_EQ(::mkfifo(ready.c_str(), 0600), 0);
  ProcessOptions options = shell(
      directory, "setsid sh -c 'echo $$ > " + pid + "; echo > " + ready + "; sleep 600' & wait");
  options.with_descendants = true;
  asio::io_context context(1);
  Process process(context.get_executor(), options);
  read_fifo(ready);
  process.send_signal(SIGKILL);
  EXPECT_EQ(wait_for(context, process).signal, SIGKILL);
  expect_gone(pid);
}

TEST(Process, WithDescendantsItIsKilledEvenIfThereIsNoDescriptorToFindThem) {
  const TemporaryDirectory directory;
  ProcessOptions options = shell(directory, "sleep 600");
  options.with_descendants = true;
  asio::io_context context(1);
  Process process(context.get_executor(), options);
  {
    const test::NoMoreFiles none;
    process.send_signal(SIGKILL);
  }
  EXPECT_EQ(wait_for(context, process).signal, SIGKILL);
}

TEST(Process, WithDescendantsNothingOfItsGroupOutlivesIt) {
  const TemporaryDirectory directory;
  const std::string pid = (directory / "pid").string();
  ProcessOptions options = shell(directory, "sleep 600 & echo $! > " + pid);
  options.with_descendants = true;
  EXPECT_TRUE(run_to_end(options).ok());
  expect_gone(pid);
}

TEST(Process, OutputCanHaveAFileOfItsOwn) {
  const TemporaryDirectory directory;
  ProcessOptions options = shell(directory, "echo result; echo log >&2");
  options.output = directory / "output";
  run_to_end(options);
  EXPECT_EQ(read_text_file(directory / "output"), "result\n");
  EXPECT_EQ(read_text_file(directory / "log"), "log\n");
}

TEST(Process, AddsToTheEnvironmentAndReplacesInIt) {
  const TemporaryDirectory directory;
  ::setenv("CAUSEWAY_TEST_OLD", "old", 1);
  ::setenv("CAUSEWAY_TEST_KEPT", "kept", 1);
  ProcessOptions options =
      shell(directory, "echo $CAUSEWAY_TEST_OLD $CAUSEWAY_TEST_KEPT $CAUSEWAY_TEST_NEW");
  options.environment = {{"CAUSEWAY_TEST_OLD", "replaced"}, {"CAUSEWAY_TEST_NEW", "new"}};
  run_to_end(options);
  EXPECT_EQ(read_text_file(directory / "log"), "replaced kept new\n");
}

TEST(Process, AMissingProgramIsNamedAtOnce) {
  const TemporaryDirectory directory;
  asio::io_context context(1);
  try {
    Process process(context.get_executor(), {{"/nonexistent/program"}, {}, directory / "log", {}});
    FAIL() << "must throw";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::no_such_file_or_directory);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/nonexistent/program"));
  }
}

TEST(Process, RunsInAGroupOfItsOwn) {
  const TemporaryDirectory directory;
  run_to_end(
      shell(directory, "read line < /proc/$$/stat; set -- $line; test $5 = $$ && echo leader"));
  EXPECT_EQ(read_text_file(directory / "log"), "leader\n");
}

TEST(Process, InheritsNoDescriptorOfOurs) {
  const TemporaryDirectory directory;
  const int leaked = ::open("/dev/null", O_RDONLY);  // as a library would, without close-on-exec
  run_to_end(shell(directory, "test -e /proc/$$/fd/" + std::to_string(leaked) + " || echo closed"));
  ::close(leaked);
  EXPECT_EQ(read_text_file(directory / "log"), "closed\n");
}

TEST(Process, GetsSignals) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "ready").c_str(), 0600), 0);
  asio::io_context context(1);
  const std::string fifo = (directory / "ready").string();
  Process process(context.get_executor(),
                  shell(directory, "trap 'exit 130' INT; echo ready > " + fifo +
                                       "; while :; do sleep 0.01; done"));
  EXPECT_EQ(read_fifo(directory / "ready"), "ready\n");
  process.send_signal(SIGINT);
  EXPECT_EQ(wait_for(context, process).code, 130);
}

TEST(Process, IsKilledWhenItsOwnerLetsGo) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "ready").c_str(), 0600), 0);
  asio::io_context context(1);
  {
    const Process process(
        context.get_executor(),
        shell(directory, "echo $$ > " + (directory / "pid").string() + "; echo > " +
                             (directory / "ready").string() + "; exec sleep 1000"));
    read_fifo(directory / "ready");
  }
  expect_gone(directory / "pid");
}

// The parent here is a process of its own that starts a child and is then killed, as `kill -9` of a
// simulation would.
TEST(Process, DiesWithItsParent) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "ready").c_str(), 0600), 0);
  const ProcessOptions options =
      shell(directory, "echo $$ > " + (directory / "pid").string() + "; echo > " +
                           (directory / "ready").string() + "; exec sleep 1000");
  const pid_t parent = ::fork();
  if (parent == 0) {
    asio::io_context context(1);
    const Process process(context.get_executor(), options);
    for (;;) ::pause();
  }
  read_fifo(directory / "ready");
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  expect_gone(directory / "pid");
}

TEST(LastLines, AreTheEndOfTheFile) {
  const TemporaryDirectory directory;
  directory.write("log", "1\n2\n3\n4");
  EXPECT_THAT(last_lines(directory / "log", 2), ::testing::ElementsAre("3", "4"));
  EXPECT_THAT(last_lines(directory / "log", 9), ::testing::SizeIs(4));
  EXPECT_THAT(last_lines(directory / "none", 2), ::testing::IsEmpty());
}

TEST(LastWords, AreNoRuledLine) {
  const TemporaryDirectory directory;
  directory.write("log", "loss 2\n====\n  exitcode : -9\n====\n\n");
  EXPECT_EQ(last_words(directory / "log"), "exitcode : -9");
  directory.write("log", "====\n");
  EXPECT_EQ(last_words(directory / "log"), "");
  EXPECT_EQ(last_words(directory / "none"), "");
}

}  // namespace
}  // namespace causeway::run
