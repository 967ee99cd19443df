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

}  // namespace
}  // namespace causeway::run
