#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "apps/run/region/own_process.h"
#include "apps/run/region/signal_watch.h"
#include "apps/run/region/stop_wishes.h"
#include "intra/base/mapped_file.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

constexpr int kAsExpected = 42;

bool is_blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

bool has_handler(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler != SIG_DFL;
}

// Of a thread that begins after watch_stop_signals, as those of OpenMP and Gloo do.
bool can_be_interrupted() {
  bool can = false;
  std::thread([&can] {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      can |= !is_blocked(signal) || has_handler(signal);
  }).join();
  return can;
}

void wait_for_the_first() {
  while (!stop_requested()) std::this_thread::yield();
}

class Signals : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    // Whoever runs the tests may ignore them.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  }
};

TEST_F(Signals, InterruptNoThreadThatComputes) {
  const auto statement = [] {
    watch_stop_signals();
    if (can_be_interrupted() || stop_requested()) std::exit(1);
    kill(getpid(), SIGTERM);
    wait_for_the_first();
    std::exit(kAsExpected);
  };
  EXPECT_EXIT(statement(), testing::ExitedWithCode(kAsExpected), "");
}

TEST_F(Signals, TheSecondEndsAtOnce) {
  const auto statement = [] {
    watch_stop_signals();
    kill(getpid(), SIGINT);
    wait_for_the_first();
    kill(getpid(), SIGINT);
    for (;;) pause();
  };
  EXPECT_EXIT(statement(), testing::ExitedWithCode(130), "");
}

// Its processes would train on, and the next start of the region would wait for them in vain.
TEST_F(Signals, AreNotNeededWhereALauncherWasKilled) {
  const auto statement = [] {
    int ends[2];
    if (::pipe(ends) != 0) std::exit(1);
    if (const pid_t launcher = fork(); launcher > 0) {
      char code = 0;
      ::waitpid(launcher, nullptr, 0);
      std::exit(::read(ends[0], &code, 1) == 1 ? code : 1);
    }
    const pid_t launcher = getpid();
    int ready[2];
    char byte = 0;
    if (::pipe(ready) != 0) std::exit(1);
    if (fork() > 0) {
      (void)!::read(ready[0], &byte, 1);
      kill(launcher, SIGKILL);
    }
    stop_with_parent();
    const bool early = stop_requested();
    (void)!::write(ready[1], &byte, 1);
    while (getppid() == launcher) std::this_thread::yield();
    byte = !early && stop_requested() ? kAsExpected : 1;
    (void)!::write(ends[1], &byte, 1);
    std::exit(0);
  };
  EXPECT_EXIT(statement(), testing::ExitedWithCode(kAsExpected), "");
}

TEST(StopWishesTest, ASigtermThatALauncherSendsOnHurriesNobody) {
  using Wish = StopWishes::Wish;
  const StopWishes::Time now{std::chrono::hours{1}};
  StopWishes wishes;
  EXPECT_EQ(wishes.heed(SIGTERM, now), Wish::clean_end);
  EXPECT_EQ(wishes.heed(SIGTERM, now), std::nullopt);
  EXPECT_EQ(wishes.heed(SIGTERM, now + StopWishes::kRepeats - std::chrono::milliseconds{1}),
            std::nullopt);
  EXPECT_EQ(wishes.heed(SIGTERM, now + StopWishes::kRepeats), Wish::end_at_once)
      << "somebody asks again";
}

TEST(StopWishesTest, ASigintAfterASigtermHurriesAtOnce) {
  using Wish = StopWishes::Wish;
  const StopWishes::Time now{};
  for (const int second : {SIGINT, SIGTERM}) {
    StopWishes wishes;
    EXPECT_EQ(wishes.heed(second == SIGINT ? SIGTERM : SIGINT, now), Wish::clean_end);
    EXPECT_EQ(wishes.heed(second, now), Wish::end_at_once);
  }
}

TEST_F(Signals, ReachAProgramStartedMeanwhile) {
  const auto statement = [] {
    watch_stop_signals();
    restore_signals();
    ::execlp("sh", "sh", "-c", "kill -TERM $$; exit 1", nullptr);
  };
  EXPECT_EXIT(statement(), testing::KilledBySignal(SIGTERM), "");
}

// The shell tells of it, and then the kernel; whoever ends a session sends SIGTERM besides.
TEST_F(Signals, OfATerminalThatClosesAskForACleanEndHoweverOftenTheyCome) {
  const auto statement = [](int last) {
    watch_stop_signals();
    for (const int signal : {SIGHUP, SIGHUP, SIGTERM, SIGHUP}) {
      kill(getpid(), signal);
      wait_for_the_first();
      for (sigset_t pending; sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;)
        std::this_thread::yield();
    }
    if (last == 0) std::exit(kAsExpected);
    kill(getpid(), last);
    for (;;) pause();
  };
  EXPECT_EXIT(statement(0), testing::ExitedWithCode(kAsExpected), "");
  EXPECT_EXIT(statement(SIGINT), testing::ExitedWithCode(130), "");
}

TEST_F(Signals, OfATerminalThatClosesAreNothingToWhomNohupStarted) {
  const auto statement = [] {
    std::signal(SIGHUP, SIG_IGN);
    watch_stop_signals();
    asio::io_context context;
    SignalWatch waiting(context.get_executor());
    waiting.wait([](SignalWatch::Wish) { std::exit(1); });
    kill(getpid(), SIGHUP);
    context.poll();
    std::exit(is_blocked(SIGHUP) || stop_requested() ? 1 : kAsExpected);
  };
  EXPECT_EXIT(statement(), testing::ExitedWithCode(kAsExpected), "");
}

TEST_F(Signals, InAnIoContextAskOnceAndHurryFromTheSecondThatIsNoHangup) {
  const auto statement = [] {
    asio::io_context context;
    SignalWatch waiting(context.get_executor());
    std::string wishes;
    waiting.wait([&](SignalWatch::Wish wish) {
      wishes += wish == SignalWatch::Wish::clean_end ? "clean " : "now ";
    });
    for (const int signal : {SIGHUP, SIGHUP, SIGTERM, SIGHUP, SIGINT}) {
      kill(getpid(), signal);
      while (context.poll() > 0) {  // what asio does for itself, too, and then the handler
      }
    }
    asio::post(context, [&] { waiting.cancel(); });
    context.run();  // nothing is waited for any more
    std::exit(wishes == "clean now " ? kAsExpected : 1);
  };
  EXPECT_EXIT(statement(), testing::ExitedWithCode(kAsExpected), "");
}

// The text of `| head`, which ended.
TEST_F(Signals, OfAPipeThatNobodyReadsEndOnlyWhomItsOutputIsFor) {
  const auto statement = [](bool outlives) {
    if (outlives) outlive_readers();
    int ends[2];
    if (::pipe(ends) != 0) std::exit(1);
    ::close(ends[0]);
    std::exit(::write(ends[1], "x", 1) == -1 ? kAsExpected : 1);
  };
  EXPECT_EXIT(statement(true), testing::ExitedWithCode(kAsExpected), "");
  EXPECT_EXIT(statement(false), testing::KilledBySignal(SIGPIPE), "");
}

TEST_F(Signals, OfAFileThatIsCutShortNameIt) {
  const TemporaryDirectory directory;
  const auto statement = [&directory] {
    explain_bus_errors();
    const std::filesystem::path file = directory / "data";
    std::ofstream(file) << std::string(100'000, 'x');
    const intra::MappedFile mapped(file);
    std::filesystem::resize_file(file, 10);
    const volatile std::byte* last = &mapped.bytes().back();
    std::exit(std::to_integer<int>(*last));
  };
  EXPECT_EXIT(statement(), testing::ExitedWithCode(75), "/data was cut short while it was read");
}

TEST_F(Signals, OfOtherMemoryAreLeftAlone) {
  const auto statement = [] {
    explain_bus_errors();
    const int descriptor = ::memfd_create("test", MFD_CLOEXEC);
    const void* empty = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
    std::exit(*static_cast<const volatile char*>(empty));
  };
  EXPECT_EXIT(statement(), testing::KilledBySignal(SIGBUS), "");
  const auto sent = [] {
    explain_bus_errors();
    kill(getpid(), SIGBUS);
    std::exit(0);
  };
  EXPECT_EXIT(sent(), testing::KilledBySignal(SIGBUS), "");
}

// On a thread of its own: nobody catches what is thrown there.
TEST(Memory, ThatIsMissingIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends such a process itself";
#endif
  const auto statement = [] {
    explain_missing_memory();
    std::thread([] {
      volatile std::size_t too_much = std::numeric_limits<std::ptrdiff_t>::max() / 2;
      ::operator delete(::operator new(too_much));
    }).join();
  };
  EXPECT_EXIT(statement(), testing::ExitedWithCode(1),
              "causeway: the system gives this process no more memory.*start the same command");
}

TEST(StandardStreams, ThatAreClosedAreNoFilesThatAreOpenedLater) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto statement = [](int first) {
    for (int stream = first; stream <= STDERR_FILENO; ++stream) ::close(stream);
    occupy_standard_streams();
    const bool apart = ::memfd_create("state", MFD_CLOEXEC) > STDERR_FILENO;
    const bool dropped = ::write(STDERR_FILENO, "x", 1) == 1;
    const bool fails = first > STDOUT_FILENO || ::write(STDOUT_FILENO, "x", 1) == -1;
    ::_exit(apart && dropped && fails ? kAsExpected : 1);
  };
  for (const int first : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    EXPECT_EXIT(statement(first), testing::ExitedWithCode(kAsExpected), "") << first;
}

TEST(StandardStreams, ThatAreOpenStayAsTheyAre) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto statement = [] {
    occupy_standard_streams();
    (void)!::write(STDERR_FILENO, "heard", 5);
    ::_exit(kAsExpected);
  };
  EXPECT_EXIT(statement(), testing::ExitedWithCode(kAsExpected), "heard");
}

TEST(Umask, TakesNothingFromTheOwner) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto statement = [](mode_t before, mode_t after) {
    ::umask(before);
    keep_own_access();
    std::exit(::umask(0) == after ? kAsExpected : 1);
  };
  EXPECT_EXIT(statement(0777, 077), testing::ExitedWithCode(kAsExpected), "");
  EXPECT_EXIT(statement(022, 022), testing::ExitedWithCode(kAsExpected), "");
}

TEST(StackLimit, TooLittleIsNamedWithWhatToDo) {
  EXPECT_NE(stack_problem(64 << 10).find("64 kB here, and at least 128 kB"), std::string::npos);
  EXPECT_NE(stack_problem(64 << 10).find("raise ulimit -s"), std::string::npos);
  EXPECT_EQ(stack_problem(128 << 10), "");
  EXPECT_EQ(stack_problem(RLIM_INFINITY), "");
}

}  // namespace

}  // namespace causeway::run
