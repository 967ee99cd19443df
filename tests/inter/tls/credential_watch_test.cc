#include "inter/tls/credential_watch.h"

#include <gtest/gtest.h>

#include <fstream>

#include "inter/base/error.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

class Watch : public testing::Test {
 protected:
  void write(const std::string& content) { std::ofstream(files_.certificate) << content; }
  // Whether the files were tried, and could not be used.
  bool tries(CredentialWatch& watch) {
    bool tried = false;
    const auto load = [&tried] {
      tried = true;
      throw std::system_error(Errc::bad_credentials, "half of a file");
    };
    EXPECT_FALSE(watch.reload(load));
    return tried;
  }

  const test::TemporaryDirectory directory_;
  const Credentials files_ = credentials_in(directory_.path(), "eu");
};

TEST_F(Watch, FilesThatCannotBeUsedAreNotTriedAtEveryCall) {
  CredentialWatch watch("eu", files_, std::chrono::hours(1));
  EXPECT_FALSE(tries(watch)) << "nothing changed";
  write("half");
  EXPECT_TRUE(tries(watch));
  EXPECT_FALSE(tries(watch));
  write("half and more");
  EXPECT_TRUE(tries(watch)) << "they are others now";
  write("all of it, finally");
  EXPECT_TRUE(watch.reload([] {}));
}

TEST_F(Watch, TheSameFilesAreTriedAgainAfterAWhile) {
  CredentialWatch watch("eu", files_, std::chrono::milliseconds(0));
  write("half");
  EXPECT_TRUE(tries(watch));
  EXPECT_TRUE(tries(watch));
}

}  // namespace
}  // namespace causeway::inter
