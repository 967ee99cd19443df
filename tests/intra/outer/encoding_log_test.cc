#include "intra/outer/encoding_log.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace causeway::intra {
namespace {

// Of a large model it has a megabyte in a few rounds.
TEST(EncodingLog, IsKeptUpToASizeWithTwoOlderOnes) {
  const test::TemporaryDirectory directory(test::in_memory());
  const std::vector<TensorEncoding> encodings{
      {.tensor = std::string(kEncodingLogBytesMax / 3, 't'), .spec = "dense:fp32"}};
  for (diloco::Round round = 0; round < 7; ++round)
    log_encodings(directory.path(), round, encodings);
  const auto rounds_in = [&](const char* name) {
    std::ifstream file(directory.path() / name);
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  };
  EXPECT_EQ(rounds_in("compression.jsonl"), 1);
  EXPECT_EQ(rounds_in("compression.1.jsonl"), 2);
  EXPECT_EQ(rounds_in("compression.2.jsonl"), 2);
  for (const auto& file : std::filesystem::directory_iterator(directory.path()))
    EXPECT_LE(file.file_size(), kEncodingLogBytesMax) << file.path();
}

}  // namespace
}  // namespace causeway::intra
