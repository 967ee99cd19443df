// What a start waits for, and what it leaves to others.
#include "apps/run/region/start_needs.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include <gtest/gtest.h>

#include "inter/base/error.h"
#include "inter/tls/pki.h"
#include "tests/support/temporary_directory.h"

namespace causeway::run {
namespace {

using std::chrono::days;

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

}  // namespace
}  // namespace causeway::run
