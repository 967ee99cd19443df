#include "inter/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inter/base/atomic_file.h"
#include "inter/base/error.h"
#include "tests/support/process_limits.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string problem_of(const fs::path& file, std::size_t bytes_max) {
  try {
    read_regular_file(file, bytes_max);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(File, ThatIsToBeMadeIsNotMadeThroughASymbolicLink) {
  const test::TemporaryDirectory directory;
  const fs::path victim = directory.path() / "victim", link = directory.path() / "link";
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, link);
  EXPECT_THROW(File(link, O_WRONLY | O_CREAT | O_TRUNC), std::system_error);
  EXPECT_EQ(read_regular_file(victim, 100), "precious");
  std::array<std::byte, 8> read{};
  EXPECT_EQ(File(link, O_RDONLY).read_at(0, read), 8U) << "what is only read may be a link";
}

TEST(File, APartOfAPathThatIsALinkToNothingIsNamed) {
  const test::TemporaryDirectory directory;
  const fs::path runs = directory.path() / "runs";
  fs::create_symlink("elsewhere", runs);
  EXPECT_EQ(dangling_link_in(runs / "name" / "eu"),
            runs.string() + " is a link to elsewhere, which is not there");
  fs::create_directory(directory.path() / "elsewhere");
  EXPECT_EQ(dangling_link_in(runs / "name" / "eu"), "");
}

TEST(File, WritesThroughTheCacheWhatCannotGoPastIt) {
  const fs::path path = fs::current_path() / "not_past_the_cache";
  {
    File file(path, O_WRONLY | O_CREAT | O_TRUNC);
    file.pass_cache(true);
    file.write_at(0, std::as_bytes(std::span(std::string_view("no whole page"))));
  }
  EXPECT_EQ(read_regular_file(path, 100), "no whole page");
  fs::remove(path);
}

TEST(PrivateDirectories, AreTheirOwnersAloneWhateverTheUmask) {
  const test::TemporaryDirectory directory;
  const mode_t before = ::umask(0);
  create_private_directories(directory.path() / "a" / "b");
  ::umask(before);
  for (const char* made : {"a", "a/b"}) {
    EXPECT_EQ(fs::status(directory.path() / made).permissions(), fs::perms::owner_all) << made;
  }
  create_private_directories(directory.path() / "a" / "b");
  std::ofstream(directory.path() / "file") << "";
  EXPECT_THROW(create_private_directories(directory.path() / "file" / "c"), fs::filesystem_error);
}

TEST(ReadRegularFile, RefusesWhatMayNeverEndAndWhatIsTooLarge) {
  const test::TemporaryDirectory directory;
  const fs::path pipe = directory.path() / "pipe", file = directory.path() / "file";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(file) << "12345678";
  EXPECT_THAT(problem_of(pipe, 100), HasSubstr("pipe is not a regular file"));
  EXPECT_THAT(problem_of("/dev/zero", 100), HasSubstr("/dev/zero is not a regular file"));
  EXPECT_THAT(problem_of(directory.path(), 100), HasSubstr("is not a regular file"));
  EXPECT_THAT(problem_of(directory.path() / "none", 100), HasSubstr("No such file"));
  EXPECT_THAT(problem_of(file, 7), HasSubstr("has 8 bytes, and at most 7 are read"));
  EXPECT_EQ(read_regular_file(file, 8), "12345678");
}

TEST(RoomLeft, IsSaidOfAFullDiskAlone) {
  const test::TemporaryDirectory directory;
  EXPECT_THAT(room_left(ENOSPC, directory.path() / "state", 4096),
              testing::MatchesRegex(" \\(4096 bytes more are needed, [0-9]+ bytes are free\\)"));
  EXPECT_EQ(room_left(EACCES, directory.path() / "state", 4096), "");
}

// "File too large" alone told nobody what to do.
TEST(RoomLeft, OfALimitOnTheSizeOfFilesIsWhatToRaise) {
  EXPECT_EQ(file_limit(EACCES), "");
  const test::FullDisk limited(4096);
  EXPECT_THAT(room_left(EFBIG, "state", 10),
              HasSubstr("ulimit -f allows 4096 bytes here: raise it"));
}

TEST(RoomLeft, ALimitOnTheSizeOfFilesIsWantOfRoomAsAFullDiskIs) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG})
    EXPECT_TRUE(is_out_of_room({error, std::generic_category()})) << error;
  EXPECT_FALSE(is_out_of_room({EACCES, std::generic_category()}));
  const test::TemporaryDirectory directory;
  const test::FullDisk full(10);
  try {
    AtomicFile file(directory.path() / "state");
    file.append(std::vector<std::byte>(100));
    FAIL() << "it was written";
  } catch (const std::system_error& error) {
    EXPECT_TRUE(is_out_of_room(error)) << error.what();
  }
}

// Whoever starts processes again does so after the former alone.
TEST(FailsForNow, AnErrorOfTheDiskOrTheHostDoesAndAPathThatCannotBeDoesNot) {
  for (const int error : {EIO, EMFILE, ENFILE, ENOMEM, ENOLCK, ESTALE})
    EXPECT_TRUE(fails_for_now({error, std::system_category()})) << error;
  for (const int error : {0, ENOENT, EACCES, ENOTDIR, EISDIR, ENOSPC})
    EXPECT_FALSE(fails_for_now({error, std::generic_category()})) << error;
  EXPECT_FALSE(fails_for_now(make_error_code(static_cast<Errc>(EIO)))) << "a number of ours";
}

}  // namespace
}  // namespace causeway::inter
