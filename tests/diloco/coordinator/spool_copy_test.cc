#include "diloco/coordinator/spool_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "inter/base/error.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

class SpoolCopyTest : public testing::Test {
 protected:
  SpoolCopyTest() { std::ofstream(file_) << content_; }

  void start(inter::Spool& spool) {
    asio::co_spawn(loop_,
                   copy_to_spool(Descriptor(::open(file_.c_str(), O_RDONLY | O_CLOEXEC)), spool,
                                 thread_.get_executor()),
                   [this, &spool](std::exception_ptr failure, const Copied& copied) {
                     failure_ = failure;
                     if (failure) return;
                     blob_ = copied.blob;
                     if (copied.draft) spool.finish(*copied.draft, copied.blob);
                   });
    loop_.poll();
  }
  void copy() {
    while (!blob_ && !failure_) {
      thread_.restart();
      thread_.poll();
      loop_.restart();
      loop_.poll();
    }
  }
  std::error_code code() const {
    try {
      if (failure_) std::rethrow_exception(failure_);
    } catch (const std::system_error& error) {
      return error.code();
    }
    return {};
  }

  test::TemporaryDirectory directory_;
  const std::filesystem::path file_ = directory_.path() / "payload";
  const std::string content_ = std::string(700'000, 'a') + "end";
  inter::Spool spool_{directory_.path() / "spool", 1U << 20};
  asio::io_context loop_, thread_;
  std::optional<inter::BlobId> blob_;
  std::exception_ptr failure_;
};

TEST_F(SpoolCopyTest, TheCopyIsTheBlobOfItsContent) {
  start(spool_);
  copy();
  ASSERT_TRUE(blob_);
  inter::Spool other(directory_.path() / "other", 1U << 20);
  EXPECT_EQ(*blob_, other.put(std::as_bytes(std::span(content_))));
  EXPECT_EQ(spool_.read(*blob_, 0, content_.size()), other.read(*blob_, 0, content_.size()));
}

TEST_F(SpoolCopyTest, TheLoopIsFreeWhileTheThreadCopies) {
  start(spool_);  // the loop does what it can
  EXPECT_FALSE(blob_);
  EXPECT_TRUE(spool_.complete().empty());
  EXPECT_EQ(spool_.free_bytes(), (1U << 20) - content_.size()) << "its room is taken";
  copy();
  EXPECT_TRUE(blob_);
  EXPECT_EQ(spool_.free_bytes(), (1U << 20) - content_.size());
}

TEST_F(SpoolCopyTest, WhatDoesNotFitIsNotBegun) {
  inter::Spool small(directory_.path() / "small", 700'000);
  start(small);
  copy();
  EXPECT_EQ(code(), inter::Errc::spool_full);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path() / "small"));
}

TEST_F(SpoolCopyTest, AFileThatShrinksLeavesNothing) {
  start(spool_);
  std::filesystem::resize_file(file_, 1000);
  copy();
  EXPECT_EQ(code(), std::errc::io_error);
  EXPECT_EQ(spool_.free_bytes(), 1U << 20);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path() / "spool"));
}

std::filesystem::path draft_in(const std::filesystem::path& spool) {
  for (const auto& entry : std::filesystem::directory_iterator(spool))
    if (entry.path().filename().string().starts_with("draft")) return entry.path();
  return {};
}

void flip_a_bit(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out);
  file.seekg(4321);
  const char byte = static_cast<char>(file.get());
  file.seekp(4321);
  file.put(static_cast<char>(byte ^ 4));
}

TEST_F(SpoolCopyTest, ACopyThatTheDiskSpoiltIsWrittenAgain) {
  start(spool_);
  thread_.run_one();  // it is written
  flip_a_bit(draft_in(directory_.path() / "spool"));
  copy();
  ASSERT_TRUE(blob_);
  EXPECT_FALSE(inter::damage_of(spool_.path(*blob_), *blob_));
}

TEST_F(SpoolCopyTest, ADiskThatSpoilsEveryCopyIsNamed) {
  start(spool_);
  for (int turn = 0; turn < 60 && !blob_ && !failure_; ++turn) {
    thread_.restart();
    thread_.poll_one();
    const std::filesystem::path draft = draft_in(directory_.path() / "spool");
    if (!draft.empty() && turn % 2 == 0) std::ofstream(draft, std::ios::in) << "something else";
    loop_.restart();
    loop_.poll();
  }
  EXPECT_FALSE(blob_);
  EXPECT_EQ(code(), std::errc::io_error);
  EXPECT_TRUE(spool_.complete().empty());
}

// A coordinator may have been killed just before it took note of it.
TEST_F(SpoolCopyTest, WhatIsThereNeedsNoRoom) {
  inter::Spool tight(directory_.path() / "tight", 1'000'000);
  const inter::BlobId id = tight.put(std::as_bytes(std::span(content_)));
  start(tight);
  copy();
  EXPECT_EQ(blob_, id);
  EXPECT_FALSE(failure_);
}

// A peer sends a snapshot that this region makes too: both are the same bytes.
TEST_F(SpoolCopyTest, APeerMaySendTheSameMeanwhile) {
  inter::Spool other(directory_.path() / "other", 1U << 20);
  const inter::BlobId id = other.put(std::as_bytes(std::span(content_)));
  inter::Spool spool(directory_.path() / "both", 2U << 20);
  start(spool);
  spool.write(id, 1, other.read(id, inter::kSmallChunkBytes, inter::kSmallChunkBytes));
  copy();
  EXPECT_EQ(blob_, id);
  EXPECT_EQ(spool.complete(), std::vector<inter::BlobId>{id});
  EXPECT_EQ(spool.read(id, 0, content_.size()), other.read(id, 0, content_.size()));
  EXPECT_EQ(spool.free_bytes(), (2U << 20) - content_.size());
}

}  // namespace
}  // namespace causeway::diloco
