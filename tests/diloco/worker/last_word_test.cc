#include "diloco/worker/last_word.h"

#include <gtest/gtest.h>

#include <string>
#include <system_error>

#include "diloco/files/file_io.h"
#include "diloco/worker/worker_session.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

// A worker at whose coordinator's socket nobody answers.
class LastWordTest : public ::testing::Test {
 protected:
  void SetUp() override { leave_last_word(directory_.path(), {"run", "removed", Errc::left_out}); }

  // Why it ends, or what it waits for.
  std::string attach(bool again, const std::string& run_id = "run") const {
    AttachRequest request{
        .socket = directory_.path() / "worker.sock", .region = "eu", .run_id = run_id};
    request.again = again;
    std::string told;
    const auto give_up_at_second = [&told](const std::string& what) {
      const bool second = !told.empty();
      told = what;
      return !second;
    };
    try {
      WorkerSession::attach(request, give_up_at_second);
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::operation_canceled) return told;
      EXPECT_EQ(error.code(), Errc::left_out);
      return std::string("ends: ") + error.what();
    }
    return "attached";
  }

  test::TemporaryDirectory directory_;
};

TEST_F(LastWordTest, EndsAWorkerThatWasAttachedBefore) {
  EXPECT_TRUE(attach(true).starts_with("ends: removed")) << attach(true);
}

// The region may have been added again, and its worker be started first.
TEST_F(LastWordTest, IsShownByAWorkerThatBeginsAndWaits) {
  EXPECT_TRUE(attach(false).ends_with("it ended and said why: removed")) << attach(false);
}

TEST_F(LastWordTest, OfAnotherRunConcernsNobody) {
  EXPECT_EQ(attach(true, "other").find("removed"), std::string::npos);
  EXPECT_EQ(attach(false, "other").find("removed"), std::string::npos);
}

TEST_F(LastWordTest, ThatIsTakenBackOrDamagedIsNone) {
  std::string bytes = *read_file(directory_.path() / "last-word");
  for (char& byte : bytes) {
    byte ^= 1;
    replace_file(directory_.path() / "last-word", bytes, Durability::visible);
    EXPECT_FALSE(last_word(directory_.path()));
    byte ^= 1;
  }
  replace_file(directory_.path() / "last-word", bytes, Durability::visible);
  EXPECT_TRUE(last_word(directory_.path()));
  for (int times = 0; times < 2; ++times) take_back_last_word(directory_.path());
  EXPECT_FALSE(last_word(directory_.path()));
}

}  // namespace
}  // namespace causeway::diloco
