#include "intra/data/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

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

DataOptions options(std::vector<std::string> files, Format format, std::int64_t vocabulary = 256) {
  return {.files = std::move(files),
          .format = format,
          .validation_fraction = 0,
          .vocabulary = vocabulary};
}

std::vector<std::int32_t> all_train(const Dataset& dataset) {
  std::vector<std::int32_t> tokens(dataset.train_tokens());
  dataset.read_train(0, tokens);
  return tokens;
}

TEST(Dataset, ReadsTextAsBytes) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("a.txt", "A\n\xFF");
  EXPECT_THAT(all_train(Dataset(options({file}, Format::text))), testing::ElementsAre(65, 10, 255));
}

TEST(Dataset, ReadsLittleEndianShards) {
  const TemporaryDirectory directory;
  const std::string narrow = directory.file("a.bin", "\x01\x02\xFF\xFF");
  EXPECT_THAT(all_train(Dataset(options({narrow}, Format::uint16, 65536))),
              testing::ElementsAre(0x0201, 0xFFFF));
  const std::string wide = directory.file("b.bin", packed<std::uint32_t>({1, 0x12345}));
  EXPECT_THAT(all_train(Dataset(options({wide}, Format::uint32, 0x20000))),
              testing::ElementsAre(1, 0x12345));
}

TEST(Dataset, ReadsBothKindsOfLlmcShards) {
  const TemporaryDirectory directory;
  const std::string gpt2 =
      directory.file("a.bin", llmc<std::uint16_t>(20240520, 1, 3, {50256, 7, 8}));
  EXPECT_THAT(all_train(Dataset(options({gpt2}, Format::llmc, 50257))),
              testing::ElementsAre(50256, 7, 8));
  const std::string llama =
      directory.file("b.bin", llmc<std::uint32_t>(20240801, 7, 2, {128000, 5}));
  EXPECT_THAT(all_train(Dataset(options({llama}, Format::llmc, 128256))),
              testing::ElementsAre(128000, 5));
}

TEST(Dataset, ReadsEveryMatchOnceInSortedOrder) {
  const TemporaryDirectory directory;
  directory.file("b.txt", "b");
  directory.file("a.txt", "a");
  const std::string third = directory.file("C.txt", "C");
  const std::string pattern = (directory.path() / "*.txt").string();
  EXPECT_THAT(all_train(Dataset(options({third, pattern}, Format::text))),
              testing::ElementsAre('C', 'a', 'b'));
}

TEST(Dataset, ReadsAFileOfSeveralNamesOnceAndSaysSo) {
  const TemporaryDirectory directory;
  const std::string first = directory.file("a.txt", "a"), other = directory.file("b.txt", "b");
  const std::filesystem::path hard = directory.path() / "c.txt", soft = directory.path() / "d.txt";
  std::filesystem::create_hard_link(first, hard);
  std::filesystem::create_symlink("b.txt", soft);
  const std::string roundabout = (directory.path() / "." / "b.txt").string();
  const std::string pattern = (directory.path() / "*.txt").string();
  const test::CapturedLog log;
  EXPECT_THAT(all_train(Dataset(options({pattern}, Format::text))), testing::ElementsAre('a', 'b'));
  EXPECT_TRUE(log.has(hard.string() + " is the same file as " + first + ": it is read once"));
  EXPECT_TRUE(log.has("(and 1 more likewise)")) << log.text();
  EXPECT_THAT(all_train(Dataset(options({other, roundabout}, Format::text))),
              testing::ElementsAre('b'));
  EXPECT_TRUE(log.has(other + " is the same file as " + roundabout)) << log.text();
  EXPECT_EQ(log.count("\n"), 2U) << "one line for each data set";
}

// Of the same bytes, but not the same: nobody can know that it was not meant.
TEST(Dataset, ReadsACopyAsAnotherFile) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("a.txt", "a"), copy = directory.file("b.txt", "a");
  EXPECT_THAT(all_train(Dataset(options({file, copy}, Format::text))),
              testing::ElementsAre('a', 'a'));
}

TEST(Dataset, LeavesOutWhatIsForValidationAlone) {
  const TemporaryDirectory directory;
  for (const char* name : {"a", "m", "z"}) directory.file(name, name);
  std::filesystem::create_hard_link(directory.path() / "m", directory.path() / "n");
  DataOptions split = options({(directory.path() / "*").string()}, Format::text);
  split.validation_files = {(directory.path() / "n").string()};
  const test::CapturedLog log;
  EXPECT_THAT(all_train(Dataset(split)), testing::ElementsAre('a', 'z'));
  EXPECT_TRUE(log.has("m is in data.validation_files, as ")) << log.text();
  EXPECT_TRUE(log.has("n: nobody trains on it")) << log.text();
  const Dataset common(common_validation(split));
  EXPECT_EQ(common.validation_tokens(), 1U);
  split.validation_files = {(directory.path() / "none*").string()};
  EXPECT_THAT(all_train(Dataset(split)), testing::ElementsAre('a', 'm', 'z'))
      << "whoever validates on them refuses that";
  split.validation_files = split.files;
  expect_refusal(Errc::bad_data, {"data.validation_files", "none is left to train on"},
                 [&] { Dataset{split}; });
}

TEST(Dataset, RefusesAFolderThatCannotBeSearched) {
  namespace fs = std::filesystem;
  const TemporaryDirectory directory;
  const auto refuses = [&](const std::string& pattern, const std::string& folder) {
    const std::string whole = (directory.path() / pattern).string();
    expect_refusal(Errc::bad_data, {"'" + whole + "' cannot be searched", folder, "make that"},
                   [&] { Dataset(options({whole}, Format::text)); });
  };
  fs::create_symlink("loop", directory.path() / "loop");  // not even root can
  refuses("loop/*.txt", "loop: ");
  for (const char* folder : {"good", "locked"}) fs::create_directory(directory.path() / folder);
  directory.file("good/a.txt", "a");
  directory.file("locked/a.txt", "b");
  directory.file("plain", "p");
  fs::create_symlink("gone", directory.path() / "dangling");
  const DataOptions all = options({(directory.path() / "*" / "*.txt").string()}, Format::text);
  EXPECT_THAT(all_train(Dataset(all)), testing::ElementsAre('a', 'b'));
  if (::geteuid() == 0) return;  // root may read everything
  fs::permissions(directory.path() / "locked", fs::perms::none);
  refuses("*/*.txt", "locked: ");
  refuses("*/a.txt", "locked: ");
  fs::permissions(directory.path() / "locked", fs::perms::owner_all);
}

TEST(Dataset, TakesTheNameOfAnExistingFileLiterally) {
  const TemporaryDirectory directory;
  directory.file("1.txt", "1");
  const std::string odd = directory.file("[1].txt", "odd");
  EXPECT_THAT(all_train(Dataset(options({odd}, Format::text))),
              testing::ElementsAre('o', 'd', 'd'));
}

TEST(Dataset, ReadsAcrossFiles) {
  const TemporaryDirectory directory;
  for (const char* name : {"1", "2", "3", "4"}) directory.file(name, std::string(name) + name);
  const Dataset dataset(options({(directory.path() / "*").string()}, Format::text));
  for (std::uint64_t first = 0; first <= 8; ++first) {
    for (std::uint64_t count = 0; first + count <= 8; ++count) {
      std::vector<std::int32_t> tokens(count);
      dataset.read_train(first, tokens);
      for (std::uint64_t i = 0; i < count; ++i) {
        EXPECT_EQ(tokens[i], '1' + static_cast<int>((first + i) / 2));
      }
    }
  }
}

TEST(Dataset, ValidatesOnTheLastPart) {
  const TemporaryDirectory directory;
  DataOptions split = options({directory.file("a", "0123456789")}, Format::text);
  split.validation_fraction = 0.3;
  const Dataset dataset(split);
  EXPECT_EQ(dataset.train_tokens(), 7U);
  ASSERT_EQ(dataset.validation_tokens(), 3U);
  std::vector<std::int32_t> tokens(3);
  dataset.read_validation(0, tokens);
  EXPECT_THAT(tokens, testing::ElementsAre('7', '8', '9'));
  split.validation_fraction = 1;
  EXPECT_EQ(Dataset(split).train_tokens(), 0U) << "all of it is for validation";
  split.validation_fraction = 1.1;
  expect_refusal(Errc::bad_data, {"validation_fraction"}, [&] { Dataset{split}; });
}

TEST(Dataset, ASampleTellsMostContentsApart) {
  const TemporaryDirectory directory;
  const auto sample = [](const std::string& file) {
    return Dataset(options({file}, Format::text)).sample();
  };
  std::string text(3 << 20, 'x');
  const diloco::Digest first = sample(directory.file("a", text));
  EXPECT_EQ(sample(directory.file("b", text)), first) << "names must not matter";
  text.back() = 'y';
  EXPECT_NE(sample(directory.file("c", text)), first);
  EXPECT_NE(sample(directory.file("d", text + "y")), first);
  for (const std::size_t block : {0U, 7U, 14U}) {
    std::string other(3 << 20, 'x');
    other[((3 << 20) - (1 << 16)) / 15 * block + 100] = 'y';
    EXPECT_NE(sample(directory.file("e", other)), first) << block;
  }
  std::string small(1000, 'x');
  const diloco::Digest whole = sample(directory.file("f", small));
  small[500] = 'y';
  EXPECT_NE(sample(directory.file("g", small)), whole);
}

TEST(Dataset, RefusesWhatIsNoDataFileAndNamesIt) {
  const TemporaryDirectory directory;
  const auto refuses = [](const std::string& file, Format format,
                          const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.push_back(file);
    expect_refusal(Errc::bad_data, all, [&] { Dataset(options({file}, format)); });
  };
  refuses((directory.path() / "*.none").string(), Format::text, {"matches no file"});
  refuses(directory.path().string(), Format::text, {"is a directory"});
  refuses(directory.file("empty", ""), Format::text, {"is empty"});
  refuses(directory.file("odd", "123"), Format::uint16, {"3 bytes", "multiple of the 2 bytes"});
  refuses(directory.file("odd", "123456"), Format::uint32, {"6 bytes", "multiple of the 4 bytes"});
  expect_refusal(Errc::bad_data, {"at least one file"}, [] { Dataset(options({}, Format::text)); });
}

TEST(Dataset, RefusesADamagedLlmcShard) {
  const TemporaryDirectory directory;
  const auto refuses = [&](const std::string& contents, const std::vector<std::string>& parts) {
    const std::string file = directory.file("a.bin", contents);
    expect_refusal(Errc::bad_data, parts, [&] { Dataset(options({file}, Format::llmc)); });
  };
  refuses("short", {"a.bin", "too short"});
  refuses(llmc<std::uint16_t>(20240521, 1, 1, {5}), {"a.bin", "magic 20240521", "20240520"});
  refuses(llmc<std::uint16_t>(20240520, 2, 1, {5}), {"a.bin", "version 2"});
  refuses(llmc<std::uint16_t>(20240520, 1, 2, {5}), {"a.bin", "1026 bytes", "2 tokens need 1028"});
  refuses(llmc<std::uint16_t>(20240520, 1, 0, {}), {"a.bin", "0 tokens"});
  refuses(llmc<std::uint16_t>(20240520, 1, -1, {5}), {"a.bin", "-1 tokens"});
}

TEST(Dataset, RefusesATokenOutsideTheVocabularyWithItsPosition) {
  const TemporaryDirectory directory;
  std::vector<std::uint16_t> tokens(100'000, 99);
  const std::string good = directory.file("good", packed(tokens));
  EXPECT_NO_THROW(Dataset(options({good}, Format::uint16, 100)));
  tokens[70'001] = 100;
  const std::string bad = directory.file("bad", packed(tokens));
  expect_refusal(Errc::bad_data, {bad, "token 100", "position 70001", "vocabulary is 100"}, [&] {
    Dataset(options({good, bad}, Format::uint16, 100));
  });
  const std::string huge = directory.file("huge", packed<std::uint32_t>({0xFFFFFFFF}));
  expect_refusal(Errc::bad_data, {"token 4294967295"},
                 [&] { Dataset(options({huge}, Format::uint32, std::int64_t{1} << 40)); });
  const std::string text = directory.file("text", "\x7F\x80");
  expect_refusal(Errc::bad_data, {"token 128", "position 1"},
                 [&] { Dataset(options({text}, Format::text, 128)); });
}

// By somebody who does not replace the file.
void write_into(const std::string& file, std::string_view bytes) {
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << bytes;
  // Clocks of file systems are coarse.
  const auto now = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, now + std::chrono::seconds(1));
}

TEST(Dataset, NamesAFileThatIsWrittenToWhileItIsRead) {
  const TemporaryDirectory directory;
  std::vector<std::string> files;
  for (std::size_t i = 0; i < 2 * Dataset::kLooks; ++i)
    files.push_back(directory.file(std::to_string(i), "abc"));
  Dataset dataset(options(files, Format::text));
  const auto look_at_all = [&dataset] {
    for (int call = 0; call < 2; ++call) dataset.check_unchanged();
  };
  EXPECT_NO_THROW(look_at_all());
  std::filesystem::permissions(files[0], std::filesystem::perms::owner_read);
  std::filesystem::rename(files[1], directory.path() / "moved");
  std::filesystem::remove(files[2]);
  std::filesystem::rename(directory.file("new", "defghi"), files[3]);
  EXPECT_NO_THROW(look_at_all()) << "what is mapped are the bytes of before";
  write_into(files[4], "abc");
  std::ofstream(files[5], std::ios::app) << "more";
  EXPECT_NO_THROW(look_at_all()) << "touched, and added to";
  write_into(files[100], "x");
  expect_refusal(Errc::data_changed, {files[100], "written to", "other bytes", "mv, not cp"},
                 look_at_all);
}

// Others that open the files now must read the same.
TEST(Dataset, NamesAFileThatWasReplacedOrAddedTo) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("a", "abc");
  const auto open = [&] { return Dataset(options({file}, Format::text)); };
  const Dataset touched = open();
  write_into(file, "abc");
  EXPECT_NO_THROW(touched.check_is_current());
  const Dataset written = open();
  write_into(file, "x");
  expect_refusal(Errc::data_changed, {file}, [&] { written.check_is_current(); });
  const Dataset added = open();
  std::ofstream(file, std::ios::app) << "more";
  expect_refusal(Errc::data_changed, {file, "added to"}, [&] { added.check_is_current(); });
  const Dataset replaced = open();
  std::filesystem::rename(directory.file("new", "xbcmore"), file);
  expect_refusal(Errc::data_changed, {file, "replaced"}, [&] { replaced.check_is_current(); });
  std::filesystem::remove(file);
  EXPECT_NO_THROW(replaced.check_is_current()) << "nobody reads anything else";
}

TEST(Dataset, RefusesATokenOutsideTheVocabularyThatWasNotThereWhenItWasOpened) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("a", packed<std::uint16_t>({1, 2, 3, 4}));
  const Dataset dataset(options({file}, Format::uint16, 100));
  write_into(file, packed<std::uint16_t>({1, 100}));
  std::vector<std::int32_t> tokens(3);
  EXPECT_NO_THROW(dataset.read_train(2, std::span(tokens).first(2)));
  expect_refusal(Errc::data_changed, {file, "token 100", "vocabulary is 100"},
                 [&] { dataset.read_train(0, tokens); });
}

}  // namespace
}  // namespace causeway::intra
