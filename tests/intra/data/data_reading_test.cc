#include "intra/data/data_reading.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/files/file_io.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

constexpr std::size_t kBytes = 3U << 20;
constexpr std::size_t kBetweenBlocks = 150'000;  // where no block of a sample lies
constexpr std::int64_t kLater_ns = 10'000'000'000;

class DataReadingTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, std::size_t changed = kBytes) {
    std::string text(kBytes, 'x');
    if (changed < kBytes) text[changed] = 'y';
    return directory_.file(name, text);
  }
  static DataOptions options(const std::string& file) {
    return {.files = {file}, .validation_fraction = 0};
  }
  diloco::DataDigest read(const DataOptions& options) const {
    return *DataReading(options, Dataset(options), nullptr, {}).digests().of_region;
  }
  std::uint64_t unread_bytes(const std::string& file) const {
    return DataReading(options(file), Dataset(options(file)), nullptr, kept_).unread_bytes();
  }
  static FileStamp stamp(const std::string& file) {
    const diloco::Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    return stamp_of(descriptor.get(), file);
  }
  // As an earlier start does, some time after the file was written.
  void keep(const std::string& file, const diloco::Digest& digest) const {
    std::filesystem::create_directories(kept_);
    KeptDigests kept(kept_ / "data-digests");
    kept.add(stamp(file), digest, stamp(file).changed_ns + kLater_ns);
    kept.save();
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path kept_ = directory_.path() / "region";
};

TEST_F(DataReadingTest, ADigestIsOfEveryByteWhereASampleIsNot) {
  const diloco::DataDigest one = read(options(write("a")));
  const diloco::DataDigest other = read(options(write("b", kBetweenBlocks)));
  ASSERT_TRUE(one.whole && other.whole);
  EXPECT_EQ(one.sample, other.sample);
  EXPECT_NE(one.whole, other.whole);
  EXPECT_FALSE(same_data(one, other));
  EXPECT_EQ(read(options(write("c"))), one) << "names must not matter";
}

TEST_F(DataReadingTest, MoreThanIsReadAtOnceIsReadInTheThread) {
  DataOptions much = options(write("a"));
  const diloco::DataDigest expected = read(much);
  much.digest_at_once_bytes = kBytes - 1;
  const Dataset data(much);
  const DataReading reading(much, data, nullptr, {});
  EXPECT_EQ(reading.unread_bytes(), kBytes);
  EXPECT_EQ(reading.digests().of_region->sample, expected.sample);
  while (!reading.digests().of_region->whole) std::this_thread::yield();
  EXPECT_EQ(reading.digests().of_region, expected);
}

TEST_F(DataReadingTest, TheThreadEndsWithItsOwner) {
  const std::string file = directory_.file("sparse", "x");
  std::filesystem::resize_file(file, std::uint64_t{1} << 42);  // hours
  const Dataset data(options(file));
  const DataReading reading(options(file), data, nullptr, {});
  EXPECT_FALSE(reading.digests().of_region->whole);
}

TEST_F(DataReadingTest, AFileIsReadOnceAsLongAsItStaysTheSame) {
  const std::string file = write("a");
  EXPECT_EQ(unread_bytes(file), kBytes);
  keep(file, {7});
  EXPECT_EQ(unread_bytes(file), 0);
  const Dataset data(options(file));
  const DataReading reading(options(file), data, nullptr, kept_);
  EXPECT_TRUE(reading.digests().of_region->whole);

  const auto modified = std::filesystem::last_write_time(file);
  write("a", kBetweenBlocks);  // in place
  std::filesystem::last_write_time(file, modified);
  EXPECT_EQ(unread_bytes(file), kBytes) << "of the same size and time, but changed since";
}

TEST_F(DataReadingTest, WhatChangedJustBeforeItWasReadIsNotKept) {
  const std::string file = write("a");
  KeptDigests kept(kept_);
  kept.add(stamp(file), {7}, stamp(file).changed_ns + 1'000'000);
  EXPECT_FALSE(kept.find(stamp(file)));
  kept.add(stamp(file), {7}, stamp(file).changed_ns + kLater_ns);
  EXPECT_TRUE(kept.find(stamp(file)));
}

TEST_F(DataReadingTest, ADamagedFileOfDigestsIsNotBelieved) {
  const std::string file = write("a");
  keep(file, {7});
  const std::filesystem::path path = kept_ / "data-digests";
  std::ifstream stream(path);
  const std::string whole{std::istreambuf_iterator<char>(stream), {}};
  for (std::size_t at = 0; at < whole.size(); at += 7) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    std::ofstream(path) << damaged;
    EXPECT_FALSE(KeptDigests(path).find(stamp(file))) << at;
    std::ofstream(path) << whole.substr(0, at);
    EXPECT_FALSE(KeptDigests(path).find(stamp(file))) << at;
  }
  std::ofstream(path) << whole;
  EXPECT_TRUE(KeptDigests(path).find(stamp(file)));
}

TEST_F(DataReadingTest, AFileThatChangesMeanwhileIsNamed) {
  const std::string file = write("a");
  const Dataset data(options(file));
  write("a", kBetweenBlocks);
  expect_refusal(Errc::data_changed, {file, "changed while it was being read"},
                 [&] { DataReading(options(file), data, nullptr, {}); });
}

TEST_F(DataReadingTest, ValidationFilesAreWhatRegionsWithDataOfTheirOwnHaveInCommon) {
  DataOptions own = options(write("a"));
  own.validation_files = {write("b", 5)};
  own.per_region = true;
  const Dataset data(own), common(common_validation(own));
  const diloco::DataDigests digests = DataReading(own, data, &common, {}).digests();
  ASSERT_TRUE(digests.of_run && digests.of_run->whole);
  own.per_region = false;
  EXPECT_EQ(DataReading(own, data, &common, {}).digests().of_run, digests.of_region);
  own.per_region = true;
  EXPECT_FALSE(DataReading(own, data, nullptr, {}).digests().of_run);
}

}  // namespace
}  // namespace causeway::intra
