#include "diloco/worker/last_word.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "diloco/files/file_io.h"
#include "diloco/worker/coordinator_link.h"
#include "diloco/worker/worker_session.h"
#include "inter/tls/pki.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

// A worker at whose coordinator's socket nobody answers.
class LastWordTest : public ::testing::Test {
 protected:
  void SetUp() override { leave_last_word(directory_.path(), {"run", "removed", Errc::left_out}); }

  AttachRequest request(const std::string& run_id = "run") const {
    return {.socket = directory_.path() / "worker.sock", .region = "eu", .run_id = run_id};
  }
  // As a worker on another host that shares the directory. Nobody listens there.
  AttachRequest request_from_afar() {
    asio::ip::tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
    silent_.open(any.protocol());
    silent_.bind(any);
    AttachRequest request = this->request();
    request.coordinator = "127.0.0.1:" + std::to_string(silent_.local_endpoint().port());
    request.certificates = directory_.path() / "certificates";
    inter::create_ca(request.certificates, "test");
    inter::add_region(request.certificates, "eu");
    return request;
  }

  // Why it ends, or what it waits for.
  static std::string attach(bool again, AttachRequest request) {
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
  asio::io_context context_;
  asio::ip::tcp::socket silent_{context_};
};

TEST_F(LastWordTest, EndsAWorkerThatWasAttachedBefore) {
  EXPECT_TRUE(attach(true, request()).starts_with("ends: removed")) << attach(true, request());
}

// The region may have been added again, and its worker be started first.
TEST_F(LastWordTest, IsShownByAWorkerThatBeginsAndWaits) {
  EXPECT_TRUE(attach(false, request()).ends_with("it ended and said why: removed"))
      << attach(false, request());
}

// It was looked for on the coordinator's host alone.
TEST_F(LastWordTest, EndsAWorkerOnAnotherHostThatSharesTheDirectory) {
  const std::string told = attach(true, request_from_afar());
  EXPECT_TRUE(told.starts_with("ends: removed")) << told;
}

TEST_F(LastWordTest, OfAnotherRunConcernsNobody) {
  EXPECT_EQ(attach(true, request("other")).find("removed"), std::string::npos);
  EXPECT_EQ(attach(false, request("other")).find("removed"), std::string::npos);
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

TEST(Silence, SaysWhatToDoOnceItIsLong) {
  EXPECT_EQ(silence(std::chrono::minutes(9)), "");
  EXPECT_NE(silence(std::chrono::hours(3)).find("answered for 180 min"), std::string::npos);
}

}  // namespace
}  // namespace causeway::diloco
