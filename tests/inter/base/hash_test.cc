#include "inter/base/hash.h"

#include <string_view>

#include <gtest/gtest.h>

#include "inter/base/text.h"

namespace causeway::inter {
namespace {

void add(Sha256& hash, std::string_view text) {
  hash.update(std::as_bytes(std::span(text)));
}

TEST(Sha256, MatchesPublishedVectorsOneAfterTheOther) {
  Sha256 hash;
  add(hash, "a");
  add(hash, "bc");
  EXPECT_EQ(hex(hash.finish()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(hash.finish()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace

}  // namespace causeway::inter
