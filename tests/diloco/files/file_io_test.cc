#include "diloco/files/file_io.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/process_limits.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

TEST(LockFile, IsSeenAsLockedWhileSomebodyHasIt) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "lock";
  EXPECT_FALSE(is_locked(file)) << "there is none";
  {
    const auto lock = lock_file(file);
    ASSERT_TRUE(lock);
    EXPECT_TRUE(is_locked(file));
    EXPECT_FALSE(lock_file(file));
  }
  EXPECT_FALSE(is_locked(file));
  EXPECT_TRUE(lock_file(file));
}

TEST(LockFile, SaysWhoHasIt) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "lock";
  EXPECT_EQ(lock_holder(file), "") << "there is none";
  std::ofstream(file) << "of an earlier one, whose text was longer than what follows, by far\n";
  const auto lock = lock_file(file);
  const std::string holder = lock_holder(file);
  EXPECT_TRUE(holder.starts_with(fmt::format(" (process {} on ", ::getpid()))) << holder;
  EXPECT_EQ(holder.find("earlier"), std::string::npos) << holder;
}

TEST(LockFile, TheFilesTimeSaysSinceWhenItIsHeld) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "lock";
  ASSERT_TRUE(lock_file(file));
  const auto earlier = std::filesystem::last_write_time(file) - std::chrono::hours(1);
  std::filesystem::last_write_time(file, earlier);
  const auto lock = lock_file(file);
  ASSERT_TRUE(lock);
  const auto held_since = std::filesystem::last_write_time(file);
  EXPECT_GT(held_since, earlier);
  EXPECT_FALSE(lock_file(file));
  EXPECT_EQ(std::filesystem::last_write_time(file), held_since) << "who is refused changes nothing";
}

TEST(AppendToFile, AddsToAFileAndRefusesASymbolicLink) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events", link = directory.path() / "link";
  append_to_file(file, "a\n");
  append_to_file(file, "b\n");
  std::filesystem::create_symlink(file, link);
  EXPECT_THROW(append_to_file(link, "c\n"), std::system_error);
  EXPECT_THROW(lock_file(link), std::system_error);
  EXPECT_EQ(read_file(file), "a\nb\n");
  EXPECT_EQ(read_file(directory.path() / "none"), std::nullopt);
}

TEST(AppendToRotatedFile, KeepsItUpToASizeAndTwoOlderOnes) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "log.jsonl";
  const auto text = [&](const char* name) {
    return read_file(directory.path() / name).value_or("");
  };
  for (const char* line : {"1234\n", "2\n", "3456\n", "456789012\n", "5\n", "6\n"})
    append_to_rotated_file(file, line, 8);
  EXPECT_EQ(text("log.jsonl"), "5\n6\n");
  EXPECT_EQ(text("log.1.jsonl"), "456789012\n") << "one line may be larger";
  EXPECT_EQ(text("log.2.jsonl"), "3456\n") << "what came before is gone";
  const std::filesystem::path link = directory.path() / "link.jsonl";
  std::filesystem::create_symlink(directory.path() / "log.1.jsonl", link);
  EXPECT_THROW(append_to_rotated_file(link, "7\n", 8), std::system_error);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST(AppendToFile, LeavesNoHalfOfALineBehind) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events";
  append_to_file(file, "a\n");
  {
    const test::FullDisk full(5);
    EXPECT_THROW(append_to_file(file, "of many letters\n"), std::system_error);
  }
  append_to_file(file, "b\n");
  EXPECT_EQ(read_file(file), "a\nb\n");
}

}  // namespace
}  // namespace causeway::diloco
