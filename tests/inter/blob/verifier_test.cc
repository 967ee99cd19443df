#include "inter/blob/verifier.h"

#include <gtest/gtest.h>
#include <asio/io_context.hpp>

#include "inter/base/error.h"
#include "inter/base/hash_tree.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

// More chunks than may wait for a thread, and so many bytes that the disk is told to begin.
constexpr std::size_t kContentBytes = (20U << 20) + 5;

std::vector<std::byte> content() {
  std::vector<std::byte> bytes(kContentBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

// Where chunks are hashed: by whoever brings them, where there are few cores, or in threads.
class VerifierTest : public testing::TestWithParam<bool> {
 protected:
  // Brings all chunks, the last one first; gives the verdict.
  std::optional<std::system_error> verdict_on(const BlobId& id, std::span<const std::byte> bytes) {
    std::optional<std::optional<std::system_error>> verdict;
    asio::thread_pool threads(2);
    asio::io_context context;
    Verifier verifier(
        context.get_executor(), spool_,
        [&](const BlobId& about, const auto& failure, auto) {
          EXPECT_EQ(about, id);
          verdict = failure;
        },
        GetParam() ? threads.executor() : asio::any_io_executor{});
    for (std::uint64_t left = chunk_count(id.size_bytes); left > 0; --left) {
      const auto chunk = bytes.subspan(chunk_offset(id, left - 1), chunk_bytes(id, left - 1));
      EXPECT_TRUE(spool_.store(id, left - 1, chunk));
      verifier.add(id, left - 1, chunk);
    }
    const auto work = asio::make_work_guard(context);
    while (!verdict) context.run_one();
    verifier.stop();
    EXPECT_EQ(verifier.hashed_bytes(), id.size_bytes);
    return *verdict;
  }

  test::TemporaryDirectory directory_;
  Spool spool_{directory_.path(), 1U << 30};
};

INSTANTIATE_TEST_SUITE_P(Threads, VerifierTest, testing::Bool(), [](const auto& mode) {
  return mode.param ? "InThreads" : "AsTheCoresAre";
});

TEST_P(VerifierTest, CompletesWhatIsWhatItsNameSays) {
  const auto bytes = content();
  const BlobId id{tree_hash(bytes), bytes.size()};
  EXPECT_FALSE(verdict_on(id, bytes));
  EXPECT_TRUE(spool_.has(id));
  EXPECT_EQ(spool_.read(id, 0, bytes.size()), bytes);
}

TEST_P(VerifierTest, SaysSoIfAByteIsAnother) {
  auto bytes = content();
  const BlobId id{tree_hash(bytes), bytes.size()};
  bytes[kContentBytes / 2] ^= std::byte{1};
  const auto failure = verdict_on(id, bytes);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code(), Errc::hash_mismatch);
  EXPECT_FALSE(spool_.has(id));
}

}  // namespace
}  // namespace causeway::inter
