#include "intra/data/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/intra/data/write_into.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"
#include "tests/support/captured_log.h"

namespace causeway::intra {
namespace {

using Format = DataOptions::Format;

DataOptions options(std::vector<std::string> files, Format format) {
  return {.files = std::move(files), .format = format, .validation_fraction = 0};
}

std::vector<std::int32_t> all_train(const Dataset& dataset) {
  std::vector<std::int32_t> tokens(dataset.train_tokens());
  dataset.read_train(0, tokens);
  return tokens;
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

// Tokens are handed out as int32.
TEST(Dataset, RefusesATokenThatNoIntegerOfItsTokensHoldsWhateverTheVocabulary) {
  const TemporaryDirectory directory;
  DataOptions wide = options({directory.file("a", std::string(4, '\xFF'))}, Format::uint32);
  wide.vocabulary = std::int64_t{1} << 40;
  std::vector<std::int32_t> tokens(1);
  EXPECT_THROW(Dataset(wide).read_train(0, tokens), std::system_error);
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
  refuses(directory.file("odd", "123"), Format::uint16, {"3 bytes"});
  expect_refusal(Errc::bad_data, {"at least one file"}, [] { Dataset(options({}, Format::text)); });
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

TEST(Dataset, LooksAtAllFilesForWhatOthersReadNow) {
  const TemporaryDirectory directory;
  const std::vector<std::string> files = {directory.file("a", "abc"), directory.file("b", "def")};
  const Dataset dataset(options(files, Format::text));
  EXPECT_NO_THROW(dataset.check_is_current());
  write_into(files[1], "x");
  expect_refusal(Errc::data_changed, {files[1]}, [&] { dataset.check_is_current(); });
}

}  // namespace
}  // namespace causeway::intra
