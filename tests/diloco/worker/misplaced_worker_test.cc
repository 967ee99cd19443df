// Workers that came to the wrong place: they are told, and do not wait for ever.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <gtest/gtest.h>
#include <asio/buffer.hpp>
#include <asio/error.hpp>

#include "diloco/files/error.h"
#include "diloco/worker/coordinator_link.h"
#include "diloco/worker/stream/frame.h"
#include "diloco/worker/worker.pb.h"
#include "inter/base/tcp.h"
#include "inter/door/tls_door.h"
#include "inter/tls/pki.h"
#include "tests/diloco/worker/worker_server_fixture.h"

namespace causeway::diloco {
namespace {

class MisplacedWorker : public WorkerServerTest {
  bool over_tls() const override { return false; }
};

// It waited for ever before.
TEST_F(MisplacedWorker, RefusesAWorkerOfAnotherVersionAndSaysWhoIsOlder) {
  start(1);
  for (const std::uint32_t protocol : {kWorkerProtocol - 1, kWorkerProtocol + 1}) {
    Unreached why;
    CoordinatorLink link(*dial_coordinator(
        request(0, 1), [] {}, why));
    worker_wire::WorkerMessage message;
    message.mutable_attach()->set_protocol(protocol);
    link.send(message);
    try {
      link.wait(keep);
      FAIL() << "it was taken";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::config_mismatch);
      const std::string than = protocol < kWorkerProtocol ? "older" : "newer";
      EXPECT_NE(std::string(error.what()).find("this worker is " + than + " than its coordinator"),
                std::string::npos);
    }
  }
}

class FarWorker : public WorkerServerTest {
  bool over_tls() const override { return true; }

 protected:
  // In the coordinator's place.
  AttachRequest request_to(inter::TlsDoor& door) const {
    AttachRequest to = request(0, 1);
    to.coordinator = "127.0.0.1:" + std::to_string(door.listen({{}, 0}));
    door.start();
    return to;
  }
  static bool has_small_segments(inter::TlsDoor::Guest& guest) {
    return inter::tcp_figures(guest.socket.native_handle())->segment_bytes <=
           inter::kSmallSegmentBytes;
  }
  // What comes is read and thrown away, so that what was sent is not lost to a reset.
  static void wait_for_end(const std::shared_ptr<inter::TlsDoor::Guest>& guest) {
    guest->socket.async_wait(asio::ip::tcp::socket::wait_read, [guest](const std::error_code&) {
      std::array<char, 4096> discarded{};
      std::error_code error;
      const std::size_t size = guest->socket.read_some(asio::buffer(discarded), error);
      if (size > 0 || error == asio::error::would_block) wait_for_end(guest);
    });
  }
};

// A mistyped port looked like a coordinator that is not there yet.
TEST_F(FarWorker, KnowsWhyNobodyAnswers) {
  start(1);
  const Descriptor silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // it never listens
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const named = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(silent.get(), named, size), 0);
  ASSERT_EQ(::getsockname(silent.get(), named, &size), 0);
  AttachRequest to = request(0, 1);
  to.coordinator = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  Unreached why;
  EXPECT_FALSE(dial_coordinator(
      to, [] {}, why));
  EXPECT_EQ(why.problem, "Connection refused");
}

// The port of the regions takes the certificate, and nothing that a worker says.
TEST_F(FarWorker, IsToldThatItMayHaveComeToThePortOfTheRegions) {
  start(1);
  inter::TlsDoor regions(context_.get_executor(),
                         {.owner = "eu", .credentials = inter::credentials_in(certificates_, "eu")},
                         [](inter::TlsDoor::Guest) {});
  const AttachRequest to = request_to(regions);
  std::string told;
  const auto give_up = [&told](const std::string& what) {
    told = what;
    return what.find("--worker-listen") == std::string::npos;
  };
  EXPECT_THROW(WorkerSession::attach(to, give_up), std::system_error);
  EXPECT_NE(told.find("closed the session before it answered; is this where its workers attach"),
            std::string::npos);
}

// Its first words are large. A path that drops large packets looks like this.
TEST_F(FarWorker, TriesSmallSegmentsWhereItIsNotAnswered) {
  start(1);
  std::atomic<int> came = 0;
  std::atomic<bool> small = false;
  inter::TlsDoor door(context_.get_executor(),
                      {.owner = "eu", .credentials = inter::credentials_in(certificates_, "eu")},
                      [&](inter::TlsDoor::Guest guest) {
                        small = small || has_small_segments(guest);
                        ++came;
                      });
  const AttachRequest to = request_to(door);
  const auto give_up = [&](const std::string&) { return !small && came < 8; };
  EXPECT_THROW(WorkerSession::attach(to, give_up), std::system_error);
  EXPECT_TRUE(small);
}

// A rank that dies again and again ends the sessions of all that wait for it.
TEST_F(FarWorker, TriesNoSmallSegmentsWhereItWasToldToWait) {
  start(1);
  std::atomic<int> came = 0;
  std::atomic<bool> small = false;
  worker_wire::CoordinatorMessage wait;
  wait.mutable_waiting()->set_what("rank 1 of eu to attach");
  const std::string message = wait.SerializeAsString();
  const std::string frame = frame_header({message.size(), 0}) + message;
  inter::TlsDoor door(context_.get_executor(),
                      {.owner = "eu", .credentials = inter::credentials_in(certificates_, "eu")},
                      [&](inter::TlsDoor::Guest arrived) {
                        const auto guest =
                            std::make_shared<inter::TlsDoor::Guest>(std::move(arrived));
                        small = small || has_small_segments(*guest);
                        ++came;
                        guest->stream->write(std::as_bytes(std::span(frame)));
                        guest->stream->flush();
                        guest->socket.shutdown(asio::ip::tcp::socket::shutdown_send);
                        wait_for_end(guest);
                      });
  const AttachRequest to = request_to(door);
  const auto give_up = [&](const std::string&) { return !small && came < 4; };
  EXPECT_THROW(WorkerSession::attach(to, give_up), std::system_error);
  EXPECT_FALSE(small);
  EXPECT_EQ(came, 4);
}

// A data loader's workers live on for a while, and held the session open.
TEST_F(MisplacedWorker, IsGoneAlthoughAChildThatItForkedLives) {
  const std::filesystem::path socket = directory_.path() / "worker.sock";
  const Descriptor door = listen_at(socket);
  AttachRequest to = request(0, 1);
  to.socket = socket;
  Unreached why;
  auto link = std::make_optional<CoordinatorLink>(*dial_coordinator(
      to, [] {}, why));
  const Descriptor session(::accept(door.get(), nullptr, nullptr));
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  link.reset();
  pollfd entry{.fd = session.get(), .events = POLLRDHUP, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// The answer, the refusal and the end of the session came in at once.
TEST_F(MisplacedWorker, HearsTheRefusalThatCameWithTheAnswer) {
  const std::filesystem::path socket = directory_.path() / "worker.sock";
  const Descriptor door = listen_at(socket);
  AttachRequest to = request(0, 1);
  to.socket = socket;
  Unreached why;
  CoordinatorLink link(*dial_coordinator(
      to, [] {}, why));
  link.send({});
  {
    const Descriptor session(::accept(door.get(), nullptr, nullptr));
    worker_wire::CoordinatorMessage attached, refused;
    attached.mutable_attached();
    refused.mutable_refused()->set_reason("other initial values");
    FrameWriter writer;
    for (const auto& message : {attached, refused}) writer.add({message.SerializeAsString(), {}});
    ASSERT_TRUE(writer.flush(session.get()));
  }
  EXPECT_TRUE(link.wait(keep).message.has_attached());
  try {
    link.send({});
    FAIL() << "it was sent";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("other initial values"), std::string::npos);
  }
}

TEST_F(MisplacedWorker, WhoWaitsInAWrongDirectoryIsTold) {
  start(1);
  AttachRequest lost = request(0, 1);
  lost.socket = directory_.path() / "nowhere" / "worker.sock";
  std::string told;
  const auto give_up = [&told](const std::string& what) {
    told = what;
    return false;
  };
  EXPECT_THROW(WorkerSession::attach(lost, give_up), std::system_error);
  EXPECT_NE(told.find("nowhere/worker.sock: there is no such directory"), std::string::npos);
}

}  // namespace
}  // namespace causeway::diloco
