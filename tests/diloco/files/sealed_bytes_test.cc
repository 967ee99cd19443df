#include "diloco/files/sealed_bytes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

namespace causeway::diloco {
namespace {

using Bytes = std::vector<std::byte>;

Bytes read(const Descriptor& file) {
  Bytes content(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)));
  EXPECT_EQ(::pread(file.get(), content.data(), content.size(), 0), std::ssize(content));
  return content;
}

TEST(SealedBytes, ArePiecesOneAfterTheOtherHoweverMany) {
  Bytes all;
  std::vector<Bytes> pieces;
  for (std::size_t i = 0; i < 2 * IOV_MAX + 3; ++i) {
    pieces.emplace_back(i % 5 * 100, static_cast<std::byte>(i));  // some of them empty
    all.insert(all.end(), pieces.back().begin(), pieces.back().end());
  }
  const std::vector<std::span<const std::byte>> views(pieces.begin(), pieces.end());
  const SealedBytes sealed(views);
  EXPECT_TRUE(std::ranges::equal(sealed.bytes(), all));
  EXPECT_EQ(read(sealed.share()), all);
}

TEST(SealedBytes, CannotBeChangedByWhoIsHandedThem) {
  const Bytes content(5'000, std::byte{7});
  const SealedBytes sealed(content);
  const Descriptor file = sealed.share();
  const std::byte other{8};
  EXPECT_EQ(::pwrite(file.get(), &other, 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(file.get(), 10), -1);
  EXPECT_EQ(::mmap(nullptr, 1, PROT_WRITE, MAP_SHARED, file.get(), 0), MAP_FAILED);
  EXPECT_TRUE(std::ranges::equal(sealed.bytes(), content));
}

TEST(SealedBytes, OutliveWhatTheyWereCopiedFrom) {
  SealedBytes copy;
  EXPECT_TRUE(copy.empty());
  EXPECT_TRUE(read(copy.share()).empty());
  {
    const Bytes content(5'000, std::byte{7});
    copy = SealedBytes(content);
  }
  EXPECT_EQ(copy.size(), 5'000);
  EXPECT_EQ(copy.bytes().back(), std::byte{7});
}

}  // namespace
}  // namespace causeway::diloco
