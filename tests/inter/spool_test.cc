#include "inter/blob.h"

#include <gtest/gtest.h>

#include <fstream>

#include "inter/error.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

using Bytes = std::vector<std::byte>;

Bytes make_bytes(std::size_t size, unsigned seed = 1) {
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
  const Bytes bytes = make_bytes(1000);
  const BlobId id = spool.put(bytes);
  EXPECT_EQ(id.size_bytes, 1000U);
  EXPECT_TRUE(spool.has(id));
  EXPECT_EQ(spool.received_bytes(id), 1000U);
  EXPECT_EQ(spool.read(id, 0, 5000), bytes);
  EXPECT_EQ(spool.read(id, 990, 5), Bytes(bytes.begin() + 990, bytes.begin() + 995));
  EXPECT_EQ(std::filesystem::file_size(spool.path(id)), 1000U);
  EXPECT_EQ(spool.complete(), std::vector<BlobId>{id});
}

TEST_F(SpoolTest, KnowsSha256) {
  Spool spool(directory_.path(), 1U << 20);
  const std::string text = "abc";
  const BlobId id = spool.put(std::as_bytes(std::span(text)));
  EXPECT_EQ(id.hash[0], 0xba);
  EXPECT_EQ(id.hash[31], 0xad);
  EXPECT_EQ(to_string(id), "ba7816bf (3 bytes)");
}

TEST_F(SpoolTest, PutTwiceStoresOnce) {
  Spool spool(directory_.path(), 1500);
  const Bytes bytes = make_bytes(1000);
  EXPECT_EQ(spool.put(bytes), spool.put(bytes));
  EXPECT_EQ(spool.stored_bytes(), 1000U);
}

TEST_F(SpoolTest, AppendCompletesWithTheLastByte) {
  Spool spool(directory_.path(), 1U << 20);
  const Bytes bytes = make_bytes(1000);
  const BlobId id = id_of(bytes);
  EXPECT_FALSE(spool.append(id, 0, std::span(bytes).first(400)));
  EXPECT_FALSE(spool.has(id));
  EXPECT_EQ(spool.received_bytes(id), 400U);
  EXPECT_TRUE(spool.append(id, 400, std::span(bytes).subspan(400)));
  EXPECT_TRUE(spool.has(id));
  EXPECT_EQ(spool.read(id, 0, 1000), bytes);
}

TEST_F(SpoolTest, EmptyBlobCompletes) {
  Spool spool(directory_.path(), 1U << 20);
  const BlobId id = id_of({});
  EXPECT_TRUE(spool.append(id, 0, {}));
  EXPECT_TRUE(spool.read(id, 0, 10).empty());
}

TEST_F(SpoolTest, RestartKeepsCompleteAndPartialBlobs) {
  const Bytes whole = make_bytes(500, 1);
  const Bytes bytes = make_bytes(1000, 2);
  const BlobId id = id_of(bytes);
  BlobId whole_id;
  {
    Spool spool(directory_.path(), 1U << 20);
    whole_id = spool.put(whole);
    spool.append(id, 0, std::span(bytes).first(700));
  }
  Spool spool(directory_.path(), 1U << 20);
  EXPECT_EQ(spool.read(whole_id, 0, 500), whole);
  EXPECT_EQ(spool.received_bytes(id), 700U);
  EXPECT_EQ(spool.stored_bytes(), 1200U);
  EXPECT_TRUE(spool.append(id, 700, std::span(bytes).subspan(700)));
  EXPECT_EQ(spool.read(id, 0, 1000), bytes);
}

TEST_F(SpoolTest, RestartFinishesABlobThatOnlyLackedItsRename) {
  const Bytes bytes = make_bytes(1000);
  BlobId id;
  {
    Spool spool(directory_.path(), 1U << 20);
    id = spool.put(bytes);
    std::filesystem::rename(spool.path(id), spool.path(id).string() + ".part");
  }
  Spool spool(directory_.path(), 1U << 20);
  EXPECT_TRUE(spool.has(id));
}

TEST_F(SpoolTest, RestartDeletesDamagedBlobs) {
  std::filesystem::path path;
  BlobId id;
  {
    Spool spool(directory_.path(), 1U << 20);
    id = spool.put(make_bytes(1000));
    path = spool.path(id);
  }
  Bytes damaged = make_bytes(1000);
  damaged[500] ^= std::byte{1};
  write_file(path, damaged);
  Spool spool(directory_.path(), 1U << 20);
  EXPECT_FALSE(spool.has(id));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SpoolTest, RestartDeletesAPartialBlobThatIsTooLong) {
  const BlobId id = id_of(make_bytes(1000));
  std::filesystem::path partial;
  {
    Spool spool(directory_.path(), 1U << 20);
    partial = spool.path(spool.put(make_bytes(1000))).string() + ".part";
    spool.remove(id);
  }
  write_file(partial, make_bytes(1001));
  Spool spool(directory_.path(), 1U << 20);
  EXPECT_EQ(spool.received_bytes(id), 0U);
  EXPECT_FALSE(std::filesystem::exists(partial));
}

TEST_F(SpoolTest, IgnoresUnrelatedFiles) {
  write_file(directory_.path() / "notes.txt", make_bytes(10));
  write_file(directory_.path() / (std::string(64, 'g') + "-10"), make_bytes(10));
  write_file(directory_.path() / (std::string(64, 'a') + "-010"), make_bytes(10));
  Spool spool(directory_.path(), 1U << 20);
  EXPECT_TRUE(spool.complete().empty());
  EXPECT_EQ(spool.stored_bytes(), 0U);
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "notes.txt"));
}

TEST_F(SpoolTest, WrongHashDeletesThePartialBlob) {
  Spool spool(directory_.path(), 1U << 20);
  const Bytes bytes = make_bytes(1000);
  const BlobId id = id_of(bytes);
  Bytes wrong = bytes;
  wrong[0] ^= std::byte{1};
  EXPECT_EQ(code_of([&] { spool.append(id, 0, wrong); }), Errc::hash_mismatch);
  EXPECT_EQ(spool.received_bytes(id), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_TRUE(spool.append(id, 0, bytes));
}

TEST_F(SpoolTest, RefusesWhatDoesNotFit) {
  Spool spool(directory_.path(), 1000);
  const Bytes first = make_bytes(600, 1);
  const Bytes second = make_bytes(500, 2);
  const BlobId first_id = id_of(first);
  spool.append(first_id, 0, std::span(first).first(1));
  // One byte is here, but room for the rest is promised.
  EXPECT_EQ(code_of([&] { spool.put(second); }), Errc::spool_full);
  EXPECT_EQ(code_of([&] { spool.append(id_of(second), 0, second); }), Errc::spool_full);
  EXPECT_TRUE(spool.append(first_id, 1, std::span(first).subspan(1)));
  spool.remove(first_id);
  EXPECT_NO_THROW(spool.put(second));
}

TEST_F(SpoolTest, RemoveForgetsPartialAndCompleteBlobs) {
  Spool spool(directory_.path(), 1U << 20);
  const Bytes bytes = make_bytes(1000);
  const BlobId id = id_of(bytes);
  spool.append(id, 0, std::span(bytes).first(10));
  spool.remove(id);
  EXPECT_EQ(spool.received_bytes(id), 0U);
  spool.put(bytes);
  spool.remove(id);
  EXPECT_FALSE(spool.has(id));
  EXPECT_NO_THROW(spool.remove(id));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

}  // namespace
}  // namespace causeway::inter
