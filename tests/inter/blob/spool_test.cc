#include "inter/blob/spool.h"

#include <gtest/gtest.h>

#include <fstream>

#include "inter/base/error.h"
#include "inter/base/hash_tree.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

using Bytes = std::vector<std::byte>;

Bytes seeded_bytes(std::size_t size, unsigned seed = 1) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

// The id of some bytes, without keeping them.
BlobId id_of(const Bytes& bytes) {
  const test::TemporaryDirectory directory;
  return Spool(directory.path(), 1U << 30).put(bytes);
}

template <typename Action>
std::error_code code_of(const Action& action) {
  try {
    action();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

class SpoolTest : public testing::Test {
 protected:
  test::TemporaryDirectory directory_;
};

TEST_F(SpoolTest, ReturnsWhatWasPut) {
  Spool spool(directory_.path(), 1U << 20);
  const Bytes bytes = seeded_bytes(1000);
  const BlobId id = spool.put(bytes);
  EXPECT_EQ(id.size_bytes, 1000U);
  EXPECT_TRUE(spool.has(id));
  EXPECT_EQ(spool.received_bytes(id), 1000U);
  EXPECT_EQ(spool.read(id, 0, 5000), bytes);
  EXPECT_EQ(spool.read(id, 990, 5), Bytes(bytes.begin() + 990, bytes.begin() + 995));
  EXPECT_EQ(std::filesystem::file_size(spool.path(id)), 1000U);
  EXPECT_EQ(spool.complete(), std::vector<BlobId>{id});
}

TEST_F(SpoolTest, NamesABlobByItsTree) {
  Spool spool(directory_.path(), 1U << 20);
  const std::string text = "abc";
  const BlobId id = spool.put(std::as_bytes(std::span(text)));
  EXPECT_EQ(id.hash[0], 0x60);
  EXPECT_EQ(id.hash[31], 0xd1);
  EXPECT_EQ(to_string(id), "609f6e36 (3 bytes)");
}

TEST_F(SpoolTest, PutTwiceStoresOnce) {
  Spool spool(directory_.path(), 1500);
  const Bytes bytes = seeded_bytes(1000);
  EXPECT_EQ(spool.put(bytes), spool.put(bytes));
  EXPECT_EQ(spool.stored_bytes(), 1000U);
}

constexpr std::size_t kTail = 1000;
constexpr std::size_t kThree = 2 * kSmallChunkBytes + kTail;  // three chunks, the last one short

std::span<const std::byte> chunk_of(const Bytes& bytes, std::uint64_t chunk) {
  const auto rest = std::span(bytes).subspan(chunk * kSmallChunkBytes);
  return rest.first(std::min(rest.size(), kSmallChunkBytes));
}

TEST_F(SpoolTest, ChunksCompleteABlobInAnyOrder) {
  Spool spool(directory_.path(), 1U << 30);
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  EXPECT_FALSE(spool.write(id, 2, chunk_of(bytes, 2)));
  EXPECT_EQ(spool.received_bytes(id), kTail);
  EXPECT_FALSE(spool.write(id, 2, chunk_of(bytes, 2))) << "once is enough";
  EXPECT_FALSE(spool.write(id, 0, chunk_of(bytes, 0)));
  EXPECT_TRUE(spool.write(id, 1, chunk_of(bytes, 1)));
  EXPECT_EQ(spool.received_bytes(id), kThree);
  EXPECT_FALSE(spool.has(id)) << "not checked yet";
  spool.check(id);
  EXPECT_TRUE(spool.has(id));
  EXPECT_TRUE(spool.held(id).all());
  EXPECT_EQ(spool.read(id, 0, kThree), bytes);
}

// Else its parts are gone, while all of it seems to be here: it could not come again.
TEST_F(SpoolTest, ABlobThatADiskDoesNotKeepInTheEndCanComeAgain) {
  Spool spool(directory_.path(), 1U << 30);
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  const auto write_all = [&] {
    for (const std::uint64_t chunk : {0, 1, 2}) spool.write(id, chunk, chunk_of(bytes, chunk));
  };
  write_all();
  const auto file = spool.partial(id);
  std::filesystem::remove(file->map);
  std::filesystem::create_directories(file->map / "which cannot be removed");
  EXPECT_NE(code_of([&] { spool.finish_checked(id, file->life, id.hash); }), std::error_code());
  EXPECT_FALSE(spool.has(id));
  EXPECT_EQ(spool.received_bytes(id), 0U);
  std::filesystem::remove_all(file->map);
  write_all();
  spool.check(id);
  EXPECT_EQ(spool.read(id, 0, kThree), bytes);
}

TEST_F(SpoolTest, WritesSeveralChunksAtOnce) {
  Spool spool(directory_.path(), 1U << 30);
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  spool.write(id, 1, chunk_of(bytes, 1));
  EXPECT_TRUE(spool.write(id, 0, bytes));
  spool.check(id);
  EXPECT_EQ(spool.read(id, 0, kThree), bytes);
}

TEST_F(SpoolTest, EmptyBlobCompletes) {
  Spool spool(directory_.path(), 1U << 20);
  const BlobId id = id_of({});
  EXPECT_TRUE(spool.write(id, 0, {}));
  spool.check(id);
  EXPECT_TRUE(spool.read(id, 0, 10).empty());
}

TEST_F(SpoolTest, RestartKeepsCompleteBlobsAndChunks) {
  const Bytes whole = seeded_bytes(500, 1);
  const Bytes bytes = seeded_bytes(kThree, 2);
  const BlobId id = id_of(bytes);
  BlobId whole_id;
  {
    Spool spool(directory_.path(), 1U << 30);
    whole_id = spool.put(whole);
    spool.write(id, 2, chunk_of(bytes, 2));
    spool.write(id, 0, chunk_of(bytes, 0));
  }
  Spool spool(directory_.path(), 1U << 30);
  EXPECT_EQ(spool.read(whole_id, 0, 500), whole);
  EXPECT_EQ(spool.received_bytes(id), kSmallChunkBytes + kTail);
  EXPECT_EQ(spool.stored_bytes(), kSmallChunkBytes + kTail + 500);
  EXPECT_FALSE(spool.held(id).has(1));
  EXPECT_TRUE(spool.write(id, 1, chunk_of(bytes, 1)));
  spool.check(id);
  EXPECT_EQ(spool.read(id, 0, kThree), bytes);
}

// What a power failure leaves: a map that is ahead of the data.
TEST_F(SpoolTest, RestartDropsTornChunksAndKeepsTheOthers) {
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  std::filesystem::path partial;
  {
    Spool spool(directory_.path(), 1U << 30);
    spool.write(id, 0, std::span(bytes).first(2 * kSmallChunkBytes));
    partial = spool.partial(id)->path;
  }
  Bytes torn(bytes.begin(), bytes.begin() + 2 * kSmallChunkBytes);
  torn[kSmallChunkBytes + 17] = std::byte{0};
  torn[kSmallChunkBytes + 18] ^= std::byte{1};
  write_file(partial, torn);
  Spool spool(directory_.path(), 1U << 30);
  EXPECT_TRUE(spool.held(id).has(0));
  EXPECT_FALSE(spool.held(id).has(1));
  spool.write(id, 1, std::span(bytes).subspan(kSmallChunkBytes));
  spool.check(id);
  EXPECT_EQ(spool.read(id, 0, kThree), bytes);
}

TEST_F(SpoolTest, RestartFinishesABlobThatOnlyLackedItsRename) {
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  {
    Spool spool(directory_.path(), 1U << 30);
    EXPECT_TRUE(spool.write(id, 0, bytes));
  }
  Spool spool(directory_.path(), 1U << 30);
  EXPECT_TRUE(spool.has(id));
}

TEST_F(SpoolTest, RestartForgetsAPartialBlobWithoutItsMap) {
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  {
    Spool spool(directory_.path(), 1U << 30);
    spool.write(id, 0, chunk_of(bytes, 0));
    std::filesystem::remove(spool.partial(id)->map);
  }
  Spool spool(directory_.path(), 1U << 30);
  EXPECT_EQ(spool.received_bytes(id), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(SpoolTest, HashOfAnEarlierLifeCompletesNothing) {
  Spool spool(directory_.path(), 1U << 30);
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  spool.write(id, 0, bytes);
  const std::uint64_t life = spool.partial(id)->life;
  spool.remove(id);
  spool.write(id, 0, chunk_of(bytes, 0));
  spool.finish_checked(id, life, id.hash);
  EXPECT_FALSE(spool.has(id));
}

TEST_F(SpoolTest, RestartDeletesDamagedBlobs) {
  std::filesystem::path path;
  BlobId id;
  {
    Spool spool(directory_.path(), 1U << 20);
    id = spool.put(seeded_bytes(1000));
    path = spool.path(id);
  }
  Bytes damaged = seeded_bytes(1000);
  damaged[500] ^= std::byte{1};
  write_file(path, damaged);
  Spool spool(directory_.path(), 1U << 20);
  EXPECT_FALSE(spool.has(id));
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A run that an earlier version began: what it holds must be there for that version.
TEST_F(SpoolTest, KeepsBlobsThatAnEarlierVersionNamedAndSaysSo) {
  const Bytes bytes = seeded_bytes(1000);
  Sha256 plain;
  plain.update(bytes);
  const auto path = blob_path(directory_.path(), {plain.finish(), bytes.size()});
  write_file(path, bytes);
  try {
    const Spool spool(directory_.path(), 1U << 20);
    FAIL() << "it was opened";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::other_version);
    EXPECT_NE(std::string(error.what()).find("go on with the version that began the run"),
              std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(std::filesystem::exists(path));
}

// A process that was killed between storing a chunk and noting its hash.
TEST_F(SpoolTest, RestartDropsChunksThatWereNotNoted) {
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  {
    Spool spool(directory_.path(), 1U << 30);
    EXPECT_TRUE(spool.store(id, 0, chunk_of(bytes, 0)));
    EXPECT_TRUE(spool.store(id, 1, chunk_of(bytes, 1)));
    EXPECT_FALSE(spool.store(id, 1, chunk_of(bytes, 0))) << "it is here";
    EXPECT_FALSE(spool.note(id, spool.life(id), 1, tree_hash(chunk_of(bytes, 1))));
  }
  Spool spool(directory_.path(), 1U << 30);
  EXPECT_FALSE(spool.held(id).has(0));
  EXPECT_TRUE(spool.held(id).has(1));
}

TEST_F(SpoolTest, IsNotCompleteBeforeTheLastHashIsNoted) {
  Spool spool(directory_.path(), 1U << 30);
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  for (const std::uint64_t chunk : {2, 0, 1}) spool.store(id, chunk, chunk_of(bytes, chunk));
  const std::uint64_t life = spool.life(id);
  EXPECT_FALSE(spool.note(id, life, 1, tree_hash(chunk_of(bytes, 1))));
  EXPECT_FALSE(spool.note(id, life, 2, tree_hash(chunk_of(bytes, 2))));
  EXPECT_FALSE(spool.note(id, life + 1, 0, tree_hash(chunk_of(bytes, 0)))) << "of another life";
  EXPECT_FALSE(spool.all_noted(id));
  EXPECT_TRUE(spool.note(id, life, 0, tree_hash(chunk_of(bytes, 0))));
  spool.check(id);
  EXPECT_EQ(spool.read(id, 0, kThree), bytes);
}

TEST_F(SpoolTest, IgnoresUnrelatedFiles) {
  write_file(directory_.path() / "notes.txt", seeded_bytes(10));
  write_file(directory_.path() / (std::string(64, 'g') + "-10"), seeded_bytes(10));
  write_file(directory_.path() / (std::string(64, 'a') + "-010"), seeded_bytes(10));
  Spool spool(directory_.path(), 1U << 20);
  EXPECT_TRUE(spool.complete().empty());
  EXPECT_EQ(spool.stored_bytes(), 0U);
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "notes.txt"));
}

TEST_F(SpoolTest, WrongHashDeletesThePartialBlob) {
  Spool spool(directory_.path(), 1U << 20);
  const Bytes bytes = seeded_bytes(1000);
  const BlobId id = id_of(bytes);
  Bytes wrong = bytes;
  wrong[0] ^= std::byte{1};
  spool.write(id, 0, wrong);
  EXPECT_EQ(code_of([&] { spool.check(id); }), Errc::hash_mismatch);
  EXPECT_EQ(spool.received_bytes(id), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_TRUE(spool.write(id, 0, bytes));
}

TEST_F(SpoolTest, ChunksThatAreDroppedComeAgainAlsoAfterARestart) {
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  Bytes wrong = bytes;
  wrong[0] ^= std::byte{1};
  {
    Spool spool(directory_.path(), 1U << 20);
    EXPECT_TRUE(spool.write(id, 0, wrong));
    ChunkMap first(chunk_count(id.size_bytes));
    first.insert(0);
    spool.drop(id, first);
    EXPECT_FALSE(spool.all_noted(id));
    EXPECT_EQ(spool.received_bytes(id), bytes.size() - chunk_bytes(id, 0));
  }
  Spool spool(directory_.path(), 1U << 20);
  EXPECT_EQ(spool.held(id).count(), chunk_count(id.size_bytes) - 1);
  EXPECT_TRUE(spool.write(id, 0, chunk_of(bytes, 0)));
  spool.check(id);
  EXPECT_TRUE(spool.has(id));
}

TEST_F(SpoolTest, RefusesWhatDoesNotFit) {
  Spool spool(directory_.path(), kThree + 400);
  const Bytes first = seeded_bytes(kThree, 1);
  const Bytes second = seeded_bytes(500, 2);
  const BlobId first_id = id_of(first);
  spool.write(first_id, 2, chunk_of(first, 2));
  // One chunk is here, but room for the rest is promised.
  EXPECT_EQ(spool.free_bytes(), 400U);
  EXPECT_EQ(code_of([&] { spool.put(second); }), Errc::spool_full);
  EXPECT_EQ(code_of([&] { spool.write(id_of(second), 0, second); }), Errc::spool_full);
  EXPECT_TRUE(spool.write(first_id, 0, first));
  spool.remove(first_id);
  EXPECT_NO_THROW(spool.put(second));
}

TEST_F(SpoolTest, DraftsAreForgottenUnlessTheyWereFinished) {
  const Bytes bytes = seeded_bytes(1000);
  const BlobId id = id_of(bytes);
  std::filesystem::path left;
  {
    Spool spool(directory_.path(), 1500);
    auto draft = spool.draft(1000);
    left = draft->path();
    EXPECT_EQ(spool.free_bytes(), 500U);
    EXPECT_EQ(code_of([&] { spool.draft(501); }), Errc::spool_full);
    draft.reset();
    EXPECT_EQ(spool.free_bytes(), 1500U);
    EXPECT_FALSE(std::filesystem::exists(left));
    draft = spool.draft(1000);
    write_file(draft->path(), bytes);
    spool.finish(*draft, id);
    draft.reset();
    EXPECT_EQ(spool.read(id, 0, 1000), bytes);
    EXPECT_EQ(spool.free_bytes(), 500U);
  }
  write_file(left, bytes);  // as a process leaves it that is killed
  const Spool spool(directory_.path(), 1500);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_EQ(spool.complete(), std::vector<BlobId>{id});
}

TEST_F(SpoolTest, RemoveForgetsPartialAndCompleteBlobs) {
  Spool spool(directory_.path(), 1U << 30);
  const Bytes bytes = seeded_bytes(kThree);
  const BlobId id = id_of(bytes);
  spool.write(id, 0, chunk_of(bytes, 0));
  spool.remove(id);
  EXPECT_EQ(spool.received_bytes(id), 0U);
  spool.put(bytes);
  spool.remove(id);
  EXPECT_FALSE(spool.has(id));
  EXPECT_NO_THROW(spool.remove(id));
  EXPECT_TRUE(spool.complete().empty());
  EXPECT_EQ(spool.free_bytes(), 1U << 30);
}

}  // namespace
}  // namespace causeway::inter
