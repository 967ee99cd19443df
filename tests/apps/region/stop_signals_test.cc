#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "apps/run/region/own_process.h"
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
    for (const int signal : {SIGINT, SIGTERM}) can |= !is_blocked(signal) || has_handler(signal);
  }).join();
  return can;
}

void wait_for_the_first() {
  while (!stop_requested()) std::this_thread::yield();
}

class Signals : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
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

TEST_F(Signals, ReachAProgramStartedMeanwhile) {
  const auto statement = [] {
    watch_stop_signals();
    unblock_stop_signals();
    ::execlp("sh", "sh", "-c", "kill -TERM $$; exit 1", nullptr);
  };
  EXPECT_EXIT(statement(), testing::KilledBySignal(SIGTERM), "");
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

}  // namespace

}  // namespace causeway::run
