#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/blob/spool.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kFileBytes = 300'000;

Bytes random_bytes(std::size_t size, unsigned seed) {
  std::minstd_rand random(seed);
  Bytes bytes(size);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random() >> 8); });
  return bytes;
}

ino_t inode(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_ino;
}

class SpareFilesTest : public testing::Test {
 protected:
  std::uint64_t bytes_on_disk() const {
    std::uint64_t total = 0;
    for (const auto& file : fs::directory_iterator(directory_.path())) {
      total += file.file_size();
    }
    return total;
  }
  std::ptrdiff_t files() const {
    const fs::directory_iterator all(directory_.path());
    return std::distance(begin(all), end(all));
  }
  ino_t put_and_remove(std::size_t size, unsigned seed) {
    const BlobId id = spool_->put(random_bytes(size, seed));
    const ino_t file = inode(spool_->path(id));
    spool_->remove(id);
    return file;
  }

  test::TemporaryDirectory directory_{test::in_memory()};
  std::optional<Spool> spool_{std::in_place, directory_.path(), 1U << 20};
};

TEST_F(SpareFilesTest, TheFileOfARemovedBlobIsWrittenAnew) {
  const ino_t first = put_and_remove(kFileBytes, 1);
  for (const std::size_t size : {kFileBytes - 1000, kFileBytes + 1000, kFileBytes * 2 / 3}) {
    const Bytes bytes = random_bytes(size, 2);
    const BlobId id = spool_->put(bytes);
    EXPECT_EQ(inode(spool_->path(id)), first);
    EXPECT_EQ(fs::file_size(spool_->path(id)), size);
    EXPECT_EQ(spool_->read(id, 0, size), bytes);
    spool_->remove(id);
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(SpareFilesTest, ChunksOfABlobThatArrivesGoThereToo) {
  const Bytes bytes = random_bytes(kFileBytes, 2);
  BlobId id;
  {
    const test::TemporaryDirectory elsewhere;
    id = Spool(elsewhere.path(), 1U << 20).put(bytes);
  }
  const ino_t first = put_and_remove(kFileBytes, 1);
  spool_->write(id, 1, std::span(bytes).subspan(kSmallChunkBytes));
  EXPECT_EQ(inode(spool_->partial(id)->path), first);
  EXPECT_FALSE(spool_->held(id).has(0)) << "what an earlier blob left is none of this one's";
  spool_->write(id, 0, std::span(bytes).first(kSmallChunkBytes));
  spool_->check(id);
  EXPECT_EQ(spool_->read(id, 0, kFileBytes), bytes);
}

TEST_F(SpareFilesTest, AfterACrashWhatTheSpareHeldIsNotTakenForChunks) {
  const Bytes bytes = random_bytes(kFileBytes, 1);
  const BlobId id = spool_->put(bytes);
  spool_->remove(id);
  // The same blob once more: what lies in the file is even right, but nobody has said so.
  spool_->write(id, 0, std::span(bytes).first(kSmallChunkBytes));
  spool_.emplace(directory_.path(), 1U << 20);
  EXPECT_EQ(spool_->held(id).count(), 1U);
}

TEST_F(SpareFilesTest, WhoStillReadsABlobThatIsRemovedSeesItUnchanged) {
  const Bytes bytes = random_bytes(kFileBytes, 1);
  BlobId id = spool_->put(bytes);
  const File reader(spool_->path(id), O_RDONLY);
  spool_->remove(id);
  spool_->put(random_bytes(kFileBytes, 2));
  Bytes seen(kFileBytes);
  EXPECT_EQ(reader.read_at(0, seen), kFileBytes);
  EXPECT_EQ(seen, bytes);
}

TEST_F(SpareFilesTest, WhoHasItMappedDoesSoToo) {
  const Bytes bytes = random_bytes(kFileBytes, 1);
  const BlobId id = spool_->put(bytes);
  const int descriptor = ::open(spool_->path(id).c_str(), O_RDONLY | O_CLOEXEC);
  void* const mapping = ::mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  ASSERT_NE(mapping, MAP_FAILED);
  spool_->remove(id);
  spool_->put(random_bytes(kFileBytes, 2));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), static_cast<const std::byte*>(mapping)));
  ::munmap(mapping, kFileBytes);
}

TEST_F(SpareFilesTest, ALinkToItKeepsItAsItIs) {
  const Bytes bytes = random_bytes(kFileBytes, 1);
  const BlobId id = spool_->put(bytes);
  const test::TemporaryDirectory backup{test::in_memory()};
  const fs::path link = backup.path() / "link";
  fs::create_hard_link(spool_->path(id), link);
  spool_->remove(id);
  spool_->put(random_bytes(kFileBytes, 2));
  Bytes seen(kFileBytes);
  EXPECT_EQ(File(link, O_RDONLY).read_at(0, seen), kFileBytes);
  EXPECT_EQ(seen, bytes);
}

TEST_F(SpareFilesTest, SparesOfOtherSizesAreLeftAndSmallFilesAreNoSpares) {
  const ino_t large = put_and_remove(kFileBytes, 1);
  const BlobId id = spool_->put(random_bytes(kFileBytes / 3, 2));
  EXPECT_NE(inode(spool_->path(id)), large);
  EXPECT_EQ(files(), 2);
  put_and_remove(1000, 3);
  EXPECT_EQ(files(), 2);
}

TEST_F(SpareFilesTest, SparesGiveWayToBlobsWithinTheCapacity) {
  const std::vector<BlobId> ids = {spool_->put(random_bytes(kFileBytes, 1)),
                                   spool_->put(random_bytes(kFileBytes, 2)),
                                   spool_->put(random_bytes(kFileBytes, 3))};
  std::for_each(ids.begin(), ids.end(), [this](const BlobId& id) { spool_->remove(id); });
  EXPECT_EQ(bytes_on_disk(), 3 * kFileBytes);
  EXPECT_EQ(spool_->stored_bytes(), 0U);
  EXPECT_EQ(spool_->free_bytes(), 1U << 20);
  spool_->put(random_bytes(1'000'000, 4));
  EXPECT_LE(bytes_on_disk(), 1U << 20);
}

TEST_F(SpareFilesTest, ASpareThatManyPassedOverIsDeleted) {
  put_and_remove(kFileBytes, 1);
  for (unsigned i = 0; i < 40; ++i) {
    put_and_remove(100'000, 2 + i);
  }
  EXPECT_EQ(bytes_on_disk(), 100'000U);
}

TEST_F(SpareFilesTest, NoneOutliveTheProcess) {
  put_and_remove(kFileBytes, 1);
  std::ofstream(directory_.path() / "spare-7") << "left by a process that was killed";
  spool_.emplace(directory_.path(), 1U << 20);
  EXPECT_EQ(files(), 0);
  put_and_remove(kFileBytes, 1);
  spool_.reset();
  EXPECT_EQ(files(), 0);
}

constexpr int kNoMount = 77;

// In a process with a tiny file system of its own, where we may make one.
TEST(SpareFilesDeathTest, GiveWayWhenTheDiskIsFull) {
  const test::TemporaryDirectory directory;
  const auto write_on_a_small_disk = [&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      std::_Exit(kNoMount);
    }
    Spool spool(directory.path(), 1U << 30);
    spool.remove(spool.put(random_bytes(600'000, 1)));
    std::ofstream(directory.path() / "others") << std::string(300'000, 'x');
    const Bytes bytes = random_bytes(250'000, 2);
    const BlobId id = spool.put(bytes);
    std::_Exit(spool.read(id, 0, bytes.size()) == bytes ? 0 : 1);
  };
  int code = -1;
  const auto ended = [&code](int status) {
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return code == 0 || code == kNoMount;
  };
  EXPECT_EXIT(write_on_a_small_disk(), ended, "");
  if (code == kNoMount) GTEST_SKIP() << "file systems are mounted by root alone";
}

}  // namespace

}  // namespace causeway::inter
