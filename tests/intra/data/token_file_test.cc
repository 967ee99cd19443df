#include "intra/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/intra/data/write_into.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"
#include "tests/support/captured_log.h"

namespace causeway::intra {
namespace {

using Format = DataOptions::Format;

template <typename Token>
std::string packed(const std::vector<Token>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)};
}

template <typename Token>
std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t count,
                 const std::vector<Token>& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return packed(header) + packed(tokens);
}

std::vector<std::int32_t> all_of(const TokenFile& file) {
  std::vector<std::int32_t> tokens(file.tokens());
  file.read(0, tokens);
  return tokens;
}

TEST(TokenFile, ReadsTextAsBytes) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("a.txt", "A\n\xFF");
  EXPECT_THAT(all_of({file, Format::text, 256}), testing::ElementsAre(65, 10, 255));
}

TEST(TokenFile, ReadsLittleEndianIntegers) {
  const TemporaryDirectory directory;
  const std::string narrow = directory.file("a.bin", "\x01\x02\xFF\xFF");
  EXPECT_THAT(all_of({narrow, Format::uint16, 65536}), testing::ElementsAre(0x0201, 0xFFFF));
  const std::string wide = directory.file("b.bin", packed<std::uint32_t>({1, 0x12345}));
  EXPECT_THAT(all_of({wide, Format::uint32, 0x20000}), testing::ElementsAre(1, 0x12345));
}

TEST(TokenFile, LooksThroughALargeFileWithAWordInTheLogUntilItIsInterrupted) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("a.bin", std::string(1 << 20, '\0'));
  const test::CapturedLog log;
  int asked = 0;
  const auto second_time = [&] { return ++asked == 2; };
  expect_refusal(Errc::interrupted, {"while it read the data"}, [&] {
    TokenFile(file, Format::uint16, 100, {.said_from_bytes = 1 << 20, .interrupted = second_time});
  });
  EXPECT_TRUE(log.has("a.bin (0.0 GB): each of its tokens must be below model.vocabulary"));
  EXPECT_EQ(asked, 2);
}

TEST(TokenFile, OfWhichEveryTokenIsInTheVocabularyIsNotLookedThrough) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("a.bin", std::string(1 << 10, '\0'));
  const test::CapturedLog log;
  const auto fails = [] {
    ADD_FAILURE() << "asked";
    return true;
  };
  TokenFile(file, Format::uint16, 65536, {.said_from_bytes = 1, .interrupted = fails});
  EXPECT_FALSE(log.has("vocabulary"));
}

TEST(TokenFile, ReadsBothKindsOfLlmcShards) {
  const TemporaryDirectory directory;
  const std::string gpt2 =
      directory.file("a.bin", llmc<std::uint16_t>(20240520, 1, 3, {50256, 7, 8}));
  EXPECT_THAT(all_of({gpt2, Format::llmc, 50257}), testing::ElementsAre(50256, 7, 8));
  const std::string llama =
      directory.file("b.bin", llmc<std::uint32_t>(20240801, 7, 2, {128000, 5}));
  EXPECT_THAT(all_of({llama, Format::llmc, 128256}), testing::ElementsAre(128000, 5));
}

TEST(TokenFile, ReadsAnyPartOfItself) {
  const TemporaryDirectory directory;
  const std::string shard =
      directory.file("a.bin", llmc<std::uint16_t>(20240520, 1, 4, {10, 11, 12, 13}));
  const TokenFile file(shard, Format::llmc, 50257);
  std::vector<std::int32_t> tokens(2);
  file.read(2, tokens);
  EXPECT_THAT(tokens, testing::ElementsAre(12, 13));
}

TEST(TokenFile, RefusesPartsOfATokenAtItsEnd) {
  const TemporaryDirectory directory;
  const auto refuses = [&](const std::string& bytes, Format format, const std::string& what) {
    const std::string file = directory.file("odd", bytes);
    expect_refusal(Errc::bad_data, {file, what}, [&] { TokenFile(file, format, 256); });
  };
  refuses("123", Format::uint16, "3 bytes, not a multiple of the 2 bytes");
  refuses("123456", Format::uint32, "6 bytes, not a multiple of the 4 bytes");
}

TEST(TokenFile, RefusesADamagedLlmcShard) {
  const TemporaryDirectory directory;
  const auto refuses = [&](const std::string& contents, const std::vector<std::string>& parts) {
    const std::string file = directory.file("a.bin", contents);
    expect_refusal(Errc::bad_data, parts, [&] { TokenFile(file, Format::llmc, 256); });
  };
  refuses("short", {"a.bin", "too short"});
  refuses(llmc<std::uint16_t>(20240521, 1, 1, {5}), {"a.bin", "magic 20240521", "20240520"});
  refuses(llmc<std::uint16_t>(20240520, 2, 1, {5}), {"a.bin", "version 2"});
  refuses(llmc<std::uint16_t>(20240520, 1, 2, {5}), {"a.bin", "1026 bytes", "2 tokens need 1028"});
  refuses(llmc<std::uint16_t>(20240520, 1, 0, {}), {"a.bin", "0 tokens"});
  refuses(llmc<std::uint16_t>(20240520, 1, -1, {5}), {"a.bin", "-1 tokens"});
}

TEST(TokenFile, RefusesATokenOutsideTheVocabularyWithItsPosition) {
  const TemporaryDirectory directory;
  std::vector<std::uint16_t> tokens(100'000, 99);
  const std::string good = directory.file("good", packed(tokens));
  EXPECT_NO_THROW(TokenFile(good, Format::uint16, 100));
  tokens[70'001] = 100;
  const std::string bad = directory.file("bad", packed(tokens));
  expect_refusal(Errc::bad_data, {bad, "token 100", "position 70001", "vocabulary is 100"},
                 [&] { TokenFile(bad, Format::uint16, 100); });
  const std::string huge = directory.file("huge", packed<std::uint32_t>({0xFFFFFFFF}));
  expect_refusal(Errc::bad_data, {"token 4294967295"},
                 [&] { TokenFile(huge, Format::uint32, std::uint64_t{1} << 31); });
  const std::string text = directory.file("text", "\x7F\x80");
  expect_refusal(Errc::bad_data, {"token 128", "position 1"},
                 [&] { TokenFile(text, Format::text, 128); });
}

TEST(TokenFile, RefusesATokenOutsideTheVocabularyThatWasNotThereWhenItWasOpened) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a", packed<std::uint16_t>({1, 2, 3, 4}));
  const TokenFile file(path, Format::uint16, 100);
  write_into(path, packed<std::uint16_t>({1, 100}));
  std::vector<std::int32_t> tokens(3);
  EXPECT_NO_THROW(file.read(2, std::span(tokens).first(2)));
  expect_refusal(Errc::data_changed, {path, "token 100", "vocabulary is 100"},
                 [&] { file.read(0, tokens); });
}

TEST(TokenFile, WarnsOnceOfWhatIsOnlyTouchedOrAddedTo) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a", "abc");
  TokenFile file(path, Format::text, 256);
  const test::CapturedLog log;
  EXPECT_NO_THROW(file.check_unchanged());
  EXPECT_EQ(log.count("\n"), 0U) << log.text();
  write_into(path, "abc");
  EXPECT_NO_THROW(file.check_unchanged());
  std::ofstream(path, std::ios::app) << "more";
  EXPECT_NO_THROW(file.check_unchanged());
  EXPECT_EQ(log.count("was touched, or added to"), 1U) << log.text();
  write_into(path, "x");
  expect_refusal(Errc::data_changed, {path, "written to", "other bytes", "mv, not cp"},
                 [&] { file.check_unchanged(); });
}

// Others that open it now must read the same.
TEST(TokenFile, SaysIfItWasReplacedOrAddedTo) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a", "abc");
  const auto open = [&] { return TokenFile(path, Format::text, 256); };
  const TokenFile touched = open();
  write_into(path, "abc");
  EXPECT_NO_THROW(touched.check_is_current());
  const TokenFile written = open();
  write_into(path, "x");
  expect_refusal(Errc::data_changed, {path}, [&] { written.check_is_current(); });
  const TokenFile added = open();
  std::ofstream(path, std::ios::app) << "more";
  expect_refusal(Errc::data_changed, {path, "added to"}, [&] { added.check_is_current(); });
  const TokenFile replaced = open();
  std::filesystem::rename(directory.file("new", "xbcmore"), path);
  expect_refusal(Errc::data_changed, {path, "replaced"}, [&] { replaced.check_is_current(); });
  std::filesystem::remove(path);
  EXPECT_NO_THROW(replaced.check_is_current()) << "nobody reads anything else";
}

}  // namespace
}  // namespace causeway::intra
