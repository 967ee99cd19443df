// How a session with a worker on another host ends, as either end sees it.

#include "diloco/worker/stream/worker_stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include <gtest/gtest.h>

#include "diloco/files/error.h"
#include "inter/tls/pki.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

class WorkerTlsStreams : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    worker_socket_ = Descriptor(ends[0]);
    coordinator_socket_ = Descriptor(ends[1]);
    inter::create_ca(directory_.path(), "test");
    inter::add_region(directory_.path(), "eu");
    worker_.emplace(ends[0], context(inter::TlsRole::client), inter::TlsRole::client);
    coordinator_.emplace(ends[1], context(inter::TlsRole::server), inter::TlsRole::server);
    using Outcome = inter::TlsStream::Outcome;
    for (int i = 0; i < 2; ++i) {
      worker_->handshake();
      coordinator_->handshake();
    }
    ASSERT_EQ(worker_->handshake(), Outcome::done);
    ASSERT_EQ(coordinator_->handshake(), Outcome::done);
  }

  inter::TlsContext context(inter::TlsRole role) const {
    return inter::make_tls_context(inter::credentials_in(directory_.path(), "eu"), role);
  }

  void say(const std::string& text) {
    worker_->add({text, {}});
    ASSERT_TRUE(worker_->flush());
  }
  // More than a socket holds, so that a part of it is on its way when the worker ends.
  void begin_to_say_much() {
    worker_->add({std::string(8U << 20, 'x'), {}});
    ASSERT_FALSE(worker_->flush());
  }
  void vanish() { worker_socket_ = Descriptor(); }

  // All that arrives until the stream ends, then what it ends with.
  std::string heard() {
    std::string all;
    try {
      for (bool open = true; open;) {
        open = coordinator_->receive();
        while (const auto frame = coordinator_->next()) all += frame->bytes + "; ";
      }
      return all + "closed";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::coordinator_lost);
      return all + error.what();
    }
  }

  test::TemporaryDirectory directory_;
  Descriptor worker_socket_, coordinator_socket_;
  std::optional<WorkerTlsStream> worker_, coordinator_;
};

TEST_F(WorkerTlsStreams, AWorkerThatSaysSoHasClosed) {
  say("one");
  say("two");
  worker_->end();
  vanish();
  EXPECT_EQ(heard(), "one; two; closed");
}

TEST_F(WorkerTlsStreams, AWorkerThatIsKilledIsLostAfterWhatItSaid) {
  say("one");
  vanish();
  const std::string all = heard();
  EXPECT_TRUE(all.starts_with("one; the connection was cut off")) << all;
}

TEST_F(WorkerTlsStreams, AFrameThatIsNotWholeIsAFailure) {
  say("one");
  begin_to_say_much();
  vanish();
  const std::string all = heard();
  EXPECT_TRUE(all.starts_with("one; the connection was cut off")) << all;
}

TEST_F(WorkerTlsStreams, AFrameThatIsGivenUpIsAFailureThatSaysSo) {
  const std::filesystem::path file = directory_.path() / "file";
  std::ofstream(file).close();
  std::filesystem::resize_file(file, 8U << 20);
  Frame frame{.bytes = "large", .descriptors = {}};
  frame.descriptors.emplace_back(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  worker_->add(std::move(frame));
  ASSERT_FALSE(worker_->flush());
  std::filesystem::resize_file(file, 0);
  ASSERT_TRUE(coordinator_->receive());
  EXPECT_THROW(worker_->flush(), std::system_error);
  worker_->end();
  const std::string all = heard();
  EXPECT_TRUE(all.starts_with("the other side closed the connection in the middle of a frame"))
      << all;
}

TEST_F(WorkerTlsStreams, WhatTheOtherSideSaidIsReadAfterASendThatFailed) {
  say("one");
  vanish();
  coordinator_->add({std::string(8U << 20, 'x'), {}});
  EXPECT_THROW(coordinator_->flush(), std::system_error);
  EXPECT_TRUE(heard().starts_with("one; ")) << "such as that it is done";
}

}  // namespace

}  // namespace causeway::diloco
