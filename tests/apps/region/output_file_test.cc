#include "apps/run/region/output_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  static std::string refusal_of(const fs::path& file) {
    try {
      check_output_file("--out", file);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  void expect_refused(const fs::path& file, const std::string& why) const {
    EXPECT_EQ(refusal_of(file), "--out " + file.string() + why);
  }

  TemporaryDirectory directory_;
};

TEST_F(OutputFileTest, ADirectoryIsNoFile) {
  const std::string why = " is a directory: name a file, such as one in it";
  expect_refused(directory_.path(), why);
  expect_refused(directory_.path() / "", why);
  expect_refused(directory_.path() / "missing" / "", why);
}

TEST_F(OutputFileTest, WhereNoDirectoryIsNothingIsWritten) {
  std::ofstream(directory_.path() / "text") << "text";
  for (const char* parent : {"missing", "text"}) {
    const fs::path place = directory_.path() / parent;
    expect_refused(place / "file", ": there is no directory " + place.string() +
                                       ": make it, or name a file elsewhere");
  }
}

TEST_F(OutputFileTest, APipeIsNotReplaced) {
  const fs::path pipe = directory_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, " is no regular file, and would be replaced by one: name another");
  EXPECT_NO_THROW(check_place_of_file("--record", pipe));
}

TEST_F(OutputFileTest, NewAndOldFilesAreTaken) {
  std::ofstream(directory_.path() / "old") << "old";
  EXPECT_EQ(refusal_of(directory_.path() / "old"), "");
  EXPECT_EQ(refusal_of(directory_.path() / "new"), "");
  EXPECT_EQ(refusal_of("in-this-directory"), "");
}

TEST_F(OutputFileTest, ADirectoryIsMadeAndNothingIsLeftInIt) {
  const fs::path made = directory_.path() / "runs" / "calibration";
  make_output_directory("--cache", made);
  EXPECT_TRUE(fs::is_directory(made));
  EXPECT_TRUE(fs::is_empty(made));
  EXPECT_NO_THROW(make_output_directory("--cache", made));
}

TEST_F(OutputFileTest, ADirectoryThatCannotBeMadeIsNamedWithItsFlag) {
  std::ofstream(directory_.path() / "text") << "text";
  const fs::path within = directory_.path() / "text" / "cache";
  try {
    make_output_directory("--cache", within);
    FAIL() << "it was made";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()), "--cache " + within.string() +
                                             ": cannot be written to (Not a directory); name "
                                             "another directory with --cache");
  }
}

}  // namespace
}  // namespace causeway::run
