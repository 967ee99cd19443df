#include "inter/base/atomic_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/process_limits.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string content_of(const fs::path& file) {
  return read_regular_file(file, 1 << 20);
}

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

std::size_t files_in(const fs::path& directory) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(AtomicFile, ReplacesASymbolicLinkAndNotWhatItPointsTo) {
  const test::TemporaryDirectory directory;
  const fs::path victim = directory.path() / "victim", link = directory.path() / "state";
  write(victim, "precious");
  fs::create_symlink(victim, link);
  fs::create_symlink(victim, link.string() + ".tmp");
  AtomicFile file(link);
  file.append(bytes_of("new"));
  file.commit(Durability::on_disk);
  EXPECT_EQ(content_of(victim), "precious");
  EXPECT_FALSE(fs::is_symlink(link));
  EXPECT_EQ(content_of(link), "new");
}

TEST(AtomicFile, LeavesNothingWithoutCommitAndHasANameThatNobodyForesees) {
  const test::TemporaryDirectory directory;
  {
    const AtomicFile first(directory.path() / "state"), second(directory.path() / "state");
    EXPECT_EQ(files_in(directory.path()), 2U);
  }
  EXPECT_EQ(files_in(directory.path()), 0U);
}

TEST(AtomicFile, GoesWhereItsDirectoryWasMoved) {
  const test::TemporaryDirectory directory;
  const fs::path before = directory.path() / "run", after = directory.path() / "moved";
  fs::create_directory(before);
  AtomicFile file(before / "state");
  fs::rename(before, after);
  fs::create_directory(before);
  file.append(bytes_of("new"));
  file.commit(Durability::visible);
  EXPECT_EQ(content_of(after / "state"), "new");
  EXPECT_EQ(files_in(before), 0U);
}

std::string letters(std::size_t count) {
  std::string text(count, ' ');
  for (std::size_t i = 0; i < count; ++i) text[i] = static_cast<char>('a' + i * i % 23);
  return text;
}

// How many bytes of the file the kernel has in memory.
std::size_t cached_bytes(const fs::path& file) {
  const std::size_t size = fs::file_size(file);
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  std::vector<unsigned char> resident((size + kPageBytes - 1) / kPageBytes);
  EXPECT_EQ(::mincore(memory, size, resident.data()), 0);
  ::munmap(memory, size);
  ::close(descriptor);
  return kPageBytes * static_cast<std::size_t>(
                          std::ranges::count_if(resident, [](auto page) { return page & 1; }));
}

TEST(AtomicFile, HasTheSameContentPastTheCache) {
  const test::TemporaryDirectory directory;
  constexpr std::size_t kGathered = 4 << 20;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{5}, kGathered - 1, kGathered, kGathered + 1,
        2 * kGathered + 4097, 3 * kGathered, 7 * kGathered + 12345}) {
    std::string content = letters(size);
    AtomicFile file(directory.path() / "file", Through::disk);
    // The last ones are appended by two threads, and not at the beginning of a piece.
    const std::size_t at_once = size < 3 * kGathered ? 1'000'003 : 3 * kGathered - 5;
    if (size % 2 == 1) file.reserve(size + (size > kGathered ? 4097 : 0));  // less comes in the end
    for (std::size_t begin = 0; begin < size; begin += at_once)
      file.append(bytes_of(content.substr(begin, at_once)));
    if (size > 7) {
      content.replace(2, 5, "12345");
      file.overwrite(2, bytes_of("12345"));
    }
    if (size % 2 == 1) file.sync();
    file.commit(Durability::on_disk);
    EXPECT_TRUE(read_regular_file(directory.path() / "file", 32 << 20) == content) << size;
  }
}

TEST(AtomicFile, ADiskWithoutRoomForALargeFileKeepsTheOldOne) {
  const test::TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  write(path, "old");
  const std::string large = letters(32 << 20);
  const test::FullDisk full(10 << 20);
  {
    AtomicFile file(path, Through::disk);
    file.reserve(large.size());
    EXPECT_THROW(file.append(bytes_of(large)), std::system_error);
  }
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);
}

TEST(AtomicFile, LeavesTheCacheToOthersOnItsWayToTheDisk) {
  // Not where temporary files are: that may be memory.
  const fs::path file = fs::current_path() / "past_the_cache";
  const std::string content = letters(9 << 20);
  std::map<Through, std::size_t> cached;
  for (const Through through : {Through::cache, Through::disk}) {
    AtomicFile written(file, through);
    written.append(bytes_of(content));
    written.commit(Durability::on_disk);
    cached[through] = cached_bytes(file);
  }
  struct statfs system {};
  ASSERT_EQ(::statfs(file.c_str(), &system), 0);
  fs::remove(file);
  if (system.f_type != EXT4_SUPER_MAGIC && system.f_type != XFS_SUPER_MAGIC)
    GTEST_SKIP() << "this file system may have no way past the cache";
  EXPECT_GE(cached[Through::cache], content.size());
  EXPECT_LE(cached[Through::disk], std::size_t{1} << 20) << "all but what is no whole piece";
}

TEST(SecondName, IsThatOfTheFileInPlaceOfWhatStoodThere) {
  const test::TemporaryDirectory directory;
  const fs::path first = directory.path() / "outer", second = directory.path() / "snapshot";
  write(first, "new");
  write(second, "old");
  for (int time = 0; time < 2; ++time) {  // again: it is a name of the file already
    give_second_name(first, second);
    EXPECT_TRUE(fs::equivalent(first, second));
    EXPECT_EQ(files_in(directory.path()), 2U);
  }
  EXPECT_EQ(content_of(second), "new");
  EXPECT_THROW(give_second_name(directory.path() / "missing", second), std::system_error);
  EXPECT_EQ(content_of(second), "new");
}

// As on a file system without second names: the kernel gives none to a file that must not change.
TEST(SecondName, IsACopyWhereThereAreNone) {
  const test::TemporaryDirectory directory;
  const fs::path first = directory.path() / "outer", second = directory.path() / "snapshot";
  const std::string content(1 << 20, 'x');
  write(first, content);
  const int file = ::open(first.c_str(), O_RDONLY);
  int flags = 0;
  const bool known = ::ioctl(file, FS_IOC_GETFLAGS, &flags) == 0;
  const int fixed = flags | FS_IMMUTABLE_FL;
  if (!known || ::ioctl(file, FS_IOC_SETFLAGS, &fixed) != 0)
    GTEST_SKIP() << "nobody here may forbid changes of a file";
  EXPECT_NO_THROW(give_second_name(first, second));
  EXPECT_EQ(::ioctl(file, FS_IOC_SETFLAGS, &flags), 0);
  ::close(file);
  EXPECT_FALSE(fs::equivalent(first, second));
  EXPECT_EQ(content_of(second), content);
  EXPECT_EQ(files_in(directory.path()), 2U);
}

TEST(Leftovers, AreRemovedUnlessTheyAreBeingWritten) {
  const test::TemporaryDirectory directory;
  write(directory.path() / "raft.0123456789abcdef.tmp", "half");
  write(directory.path() / "raft", "whole");
  fs::create_symlink(directory.path() / "raft", directory.path() / "planted.tmp");
  AtomicFile under_way(directory.path() / "state");
  remove_leftovers(directory.path());
  EXPECT_EQ(files_in(directory.path()), 3U);
  EXPECT_EQ(content_of(directory.path() / "raft"), "whole");
  under_way.append(bytes_of("new"));
  under_way.commit(Durability::visible);
  EXPECT_EQ(content_of(directory.path() / "state"), "new");
}

TEST(Leftovers, OfOneFileAreNoOthersFiles) {
  const test::TemporaryDirectory directory;
  for (const char* name : {"a.bin.0123456789abcdef.tmp", "a.bin.tmp", "a.bin.notes of mine.tmp",
                           "ab.bin.0123456789abcdef.tmp", "a.bin"}) {
    write(directory.path() / name, "text");
  }
  remove_leftovers_of(directory.path() / "a.bin");
  EXPECT_FALSE(fs::exists(directory.path() / "a.bin.0123456789abcdef.tmp"));
  EXPECT_EQ(files_in(directory.path()), 4U);
}

TEST(Leftovers, AreNeverFilesThatSomebodyCreatesMeanwhile) {
  const test::TemporaryDirectory directory;
  std::atomic<bool> over = false;
  std::thread cleaner([&] {
    while (!over) remove_leftovers(directory.path());
  });
  for (int i = 0; i < 1000; ++i) {
    AtomicFile file(directory.path() / "state");
    file.append(bytes_of("new"));
    EXPECT_NO_THROW(file.commit(Durability::visible));
  }
  over = true;
  cleaner.join();
  EXPECT_EQ(content_of(directory.path() / "state"), "new");
}

}  // namespace
}  // namespace causeway::inter
