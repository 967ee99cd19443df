// What a start waits for, and what it leaves to others.
#include "apps/run/region/start_needs.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/config/config.h"
#include "inter/base/error.h"
#include "inter/tls/pki.h"
#include "intra/base/error.h"
#include "tests/support/temporary_directory.h"

namespace {

constexpr const char* kSilent = "silent.test";

// Whoever asks it for kSilent is interrupted, and gets no answer until the test lets go.
class SilentNameServer {
 public:
  void be_asked() {
    ::pthread_kill(asker, SIGTERM);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return lets_go_; });
    lets_go_ = false;
    changed_.notify_all();
  }
  void fall_back() {
    std::unique_lock lock(mutex_);
    lets_go_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !lets_go_; });
  }
  pthread_t asker{};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool lets_go_ = false;
};

SilentNameServer& name_server() {
  static SilentNameServer server;
  return server;
}

}  // namespace

// In place of the C library's, for this whole program.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  if (host != nullptr && std::string_view(host) == kSilent) {
    name_server().be_asked();
    return EAI_FAIL;
  }
  static const auto real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(host, service, hints, found);
}

namespace causeway::run {
namespace {

using std::chrono::days;
using testing::HasSubstr;

constexpr std::chrono::seconds kNoPatience{0};

class Certificates : public testing::Test {
 protected:
  Certificates() { inter::create_ca(directory_.path(), "test"); }

  StartNeeds needs() const {
    return {.who = "eu",
            .directory = directory_.path(),
            .credentials = inter::credentials_in(directory_.path(), "eu"),
            .listens = {}};
  }
  // What a start without patience ends with; none: it begins.
  std::error_code end() const {
    try {
      wait_for(needs(), kNoPatience);
    } catch (const std::system_error& error) {
      return error.code();
    }
    return {};
  }

  test::TemporaryDirectory directory_;
};

TEST_F(Certificates, ThatAreNotValidTodayAreWaitedForAndTriedAgainLater) {
  for (const days begins : {days(-10), days(10)}) {
    inter::add_region(directory_.path(), "eu", days(1), begins);
    EXPECT_EQ(end(), inter::Errc::not_valid_today);
    EXPECT_TRUE(is_transient(end()));
    inter::renew_region(directory_.path(), "eu");
    EXPECT_EQ(end(), std::error_code());
    for (const char* part : {"eu.crt", "eu.key"}) std::filesystem::remove(directory_.path() / part);
  }
}

TEST_F(Certificates, ThatAreNotThereAreWaitedForToo) {
  EXPECT_TRUE(is_transient(end()));
}

TEST_F(Certificates, ThatWereRevokedAreNot) {
  inter::add_region(directory_.path(), "eu");
  inter::revoke_region(directory_.path(), "eu");
  EXPECT_EQ(end(), std::error_code()) << "whoever needs it says more";
}

TEST(StartNeedsTest, OneAddressForTwoThingsIsRefusedWithTheOptionsThatSayIt) {
  const test::TemporaryDirectory directory;
  const StartNeeds needs{.who = "reader",
                         .directory = directory.path(),
                         .credentials = {},
                         .listens = {{"127.0.0.1", 1}, {"127.0.0.1", 1}},
                         .listens_for = "programs (--http) and other followers (--serve)"};
  try {
    wait_for(needs, kStartWait);
    ADD_FAILURE() << "it was not refused";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("programs (--http) and other followers (--serve)"));
  }
}

TEST(StartNeedsTest, ALinkToADiskThatIsNotMountedYetIsWaitedFor) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_symlink("/not/mounted", directory.path() / "runs");
  const StartNeeds needs{.who = "eu",
                         .directory = directory.path() / "runs" / "name" / "eu",
                         .credentials = {},
                         .listens = {}};
  try {
    wait_for(needs, kNoPatience);
    FAIL() << "it began";
  } catch (const std::system_error& error) {
    EXPECT_TRUE(is_transient(error.code()));
    EXPECT_THAT(error.what(), HasSubstr("runs is a link to /not/mounted, which is not there"));
  }
}

// With the name server silent, the first look-up would go on for ten seconds.
TEST(StartNeedsTest, ASignalEndsTheWaitForANameServer) {
  const test::TemporaryDirectory directory;
  for (const bool listens : {false, true}) {
    StartNeeds needs{.who = "eu", .directory = directory.path(), .credentials = {}, .listens = {}};
    if (listens) needs.listens = {{std::string(kSilent), 7700}};
    if (!listens) needs.meets_at = kSilent;
    name_server().asker = ::pthread_self();
    std::error_code end;
    try {
      wait_for(needs, kNoPatience);
    } catch (const std::system_error& error) {
      end = error.code();
    }
    EXPECT_EQ(end, intra::Errc::interrupted);
    name_server().fall_back();
  }
}

}  // namespace
}  // namespace causeway::run
