// Strangers, certificates and hosts that are gone at the door for workers on other hosts.
#include "diloco/worker/worker_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>

#include "inter/tls/tls.h"
#include "inter/tls/tls_stream.h"
#include "tests/diloco/worker/worker_server_fixture.h"

namespace causeway::diloco {
namespace {

int option(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(socket, level, name, &value, &size);
  return value;
}

class OverTls : public WorkerServerTest {
 protected:
  bool over_tls() const override { return true; }
  // What attaching with the certificates of `directory` ends with.
  std::string refusal(const std::filesystem::path& directory) const {
    AttachRequest attach_request = request(0, 1);
    attach_request.certificates = directory;
    try {
      WorkerSession::attach(attach_request, keep);
    } catch (const std::system_error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(OverTls, AFileThatCannotBeSentToItsEndEndsTheSession) {
  start(1);
  const std::filesystem::path file = directory_.path() / "file";
  constexpr std::uint64_t kMoreThanSocketsHold = 256U << 20;
  std::ofstream(file).close();
  std::filesystem::resize_file(file, kMoreThanSocketsHold);
  const auto session = attach(0, 1);
  on_server([&] {
    server_->restore(9, {}, file, kMoreThanSocketsHold);
    std::filesystem::resize_file(file, 0);
    return 0;
  });
  EXPECT_THROW(session->next(keep), std::system_error);
}

TEST_F(OverTls, ACertificateOfAnotherRegionIsRefused) {
  start(1);
  inter::add_region(certificates_, "us");
  const std::filesystem::path disguised = directory_.path() / "disguised";
  std::filesystem::create_directories(disguised);
  for (const char* part : {"crt", "key"}) {
    std::filesystem::copy_file(certificates_ / (std::string("us.") + part),
                               disguised / (std::string("eu.") + part));
  }
  std::filesystem::copy_file(certificates_ / "ca.crt", disguised / "ca.crt");
  EXPECT_NE(refusal(disguised).find("certificate is for us"), std::string::npos);
  EXPECT_FALSE(attach(0, 1)->lost()) << "the region's own worker attaches all the same";
}

// Somebody with a certificate of the run who shakes hands and says nothing.
class Silent {
 public:
  Silent(std::uint16_t port, const std::filesystem::path& certificates, const std::string& name)
      : socket_(context_) {
    socket_.connect({asio::ip::make_address("127.0.0.1"), port});
    const auto credentials = inter::credentials_in(certificates, name);
    stream_.emplace(inter::make_socket_bio(socket_.native_handle()),
                    inter::make_tls_context(credentials, inter::TlsRole::client),
                    inter::TlsRole::client);
    while (stream_->handshake().outcome != inter::TlsStream::Outcome::done) continue;
  }
  // Until the other side ends the connection; it blocks as long.
  std::string hear_to_the_end() {
    std::string heard;
    std::array<std::byte, 4096> piece;
    for (;;) {
      const auto [outcome, bytes] = stream_->read(piece);
      if (outcome == inter::TlsStream::Outcome::ended) return heard;
      heard.append(reinterpret_cast<const char*>(piece.data()), bytes);
    }
  }
  // Until writing fails, as nobody is at the other end any more.
  void write_to_the_end() {
    std::error_code error;
    while (!error) socket_.write_some(asio::buffer("x", 1), error);
  }

 private:
  asio::io_context context_;
  asio::ip::tcp::socket socket_;
  std::optional<inter::TlsStream> stream_;
};

TEST_F(OverTls, WhoMayNotAttachIsTurnedAwayThoughItSaysNothing) {
  start(1);
  inter::add_observer(certificates_, "wall");
  Silent observer(port_, certificates_, "wall");
  EXPECT_NE(observer.hear_to_the_end().find("workers of eu attach here"), std::string::npos);
}

TEST_F(OverTls, WhoDoesNotLeaveOrDoesNotAttachIsClosedInTime) {
  attach_deadline_ = std::chrono::milliseconds(300);
  start(2);
  inter::add_region(certificates_, "us");
  Silent stays(port_, certificates_, "us"), waits(port_, certificates_, "eu");
  EXPECT_EQ(waits.hear_to_the_end(), "");
  stays.hear_to_the_end();
  stays.write_to_the_end();
}

TEST_F(OverTls, ACrowdThatMayNotAttachKeepsNobodyOut) {
  start(1);
  inter::add_region(certificates_, "us");
  Silent waits(port_, certificates_, "eu");
  std::vector<std::unique_ptr<Silent>> crowd;
  for (int i = 0; i < 65; ++i)
    crowd.push_back(std::make_unique<Silent>(port_, certificates_, "us"));
  crowd.front()->hear_to_the_end();
  crowd.front()->write_to_the_end();  // it gave way, long before its time is over
  EXPECT_FALSE(attach(0, 1)->lost());
}

TEST_F(OverTls, ACertificateOfAnotherAuthorityIsRefused) {
  start(1);
  const std::filesystem::path foreign = directory_.path() / "foreign";
  inter::create_ca(foreign, "another run");
  inter::add_region(foreign, "eu");
  EXPECT_NE(refusal(foreign).find("certificate"), std::string::npos);
  // Its certificate, but it trusts our authority: only the server can refuse it.
  std::filesystem::copy_file(certificates_ / "ca.crt", foreign / "ca.crt",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(refusal(foreign), "");
  EXPECT_FALSE(attach(0, 1)->lost());
}

TEST_F(OverTls, WhoWaitsForANameThatNobodyHasIsToldSo) {
  start(1);
  AttachRequest mistyped = request(0, 1);
  mistyped.coordinator = std::string(300, 'x') + ":4";  // longer than any name
  std::string said;
  const auto until_told = [&said](const std::string& what) {
    said = what;
    return what.find("cannot look up") == std::string::npos;
  };
  EXPECT_THROW(WorkerSession::attach(mistyped, until_told), std::system_error);
  EXPECT_TRUE(said.starts_with("the coordinator at " + mistyped.coordinator)) << said;
}

TEST_F(OverTls, CertificatesAreRevokedAndRenewedWithoutARestart) {
  start(1);
  const std::filesystem::path stolen = directory_.path() / "stolen";
  std::filesystem::copy(certificates_, stolen);
  inter::revoke_region(certificates_, "eu");
  inter::renew_region(certificates_, "eu");
  EXPECT_NE(refusal(stolen).find("certificate revoked"), std::string::npos) << refusal(stolen);
  // Its list has the certificate that the door began with.
  EXPECT_EQ(refusal(certificates_), "") << "the door shows the new one";
}

// Attaches, and calls `mend` once when what is waited for has these words.
class Mending {
 public:
  Mending(std::string words, std::function<void()> mend)
      : words_(std::move(words)), mend_(std::move(mend)) {}
  bool operator()(const std::string& what) {
    said_ += what + "\n";
    if (mend_ && what.find(words_) != std::string::npos) std::exchange(mend_, nullptr)();
    return true;
  }
  const std::string& said() const { return said_; }
  bool has_mended() const { return mend_ == nullptr; }

 private:
  std::string words_, said_;
  std::function<void()> mend_;
};

TEST_F(OverTls, AWorkerThatWasAttachedWaitsForACertificateThatIsAway) {
  start(1);
  const std::filesystem::path file = certificates_ / "eu.crt", away = certificates_ / "away";
  std::filesystem::rename(file, away);
  AttachRequest back = request(0, 1);
  EXPECT_THROW(WorkerSession::attach(back, keep), std::system_error) << "it never had one";
  back.again = true;
  Mending mending(file.string(), [&] { std::filesystem::rename(away, file); });
  EXPECT_FALSE(WorkerSession::attach(back, std::ref(mending))->lost());
  EXPECT_TRUE(mending.has_mended()) << mending.said();
}

TEST_F(OverTls, AClockThatIsWrongIsWaitedFor) {
  start(1);
  for (const char* part : {"eu.crt", "eu.key"}) std::filesystem::remove(certificates_ / part);
  inter::add_region(certificates_, "eu", std::chrono::days(1), std::chrono::days(10));
  Mending mending("is not yet valid", [&] { inter::renew_region(certificates_, "eu"); });
  EXPECT_FALSE(WorkerSession::attach(request(0, 1), std::ref(mending))->lost());
  EXPECT_TRUE(mending.has_mended()) << mending.said();
}

TEST_F(OverTls, ACoordinatorWhoseCertificateHasExpiredIsWaitedFor) {
  start(1);
  AttachRequest valid = request(0, 1);
  valid.certificates = directory_.path() / "valid";
  std::filesystem::copy(certificates_, valid.certificates);
  for (const char* part : {"eu.crt", "eu.key"}) std::filesystem::remove(certificates_ / part);
  inter::add_region(certificates_, "eu", std::chrono::days(1), std::chrono::days(-10));
  Mending mending("certificate has expired", [&] { inter::renew_region(certificates_, "eu"); });
  EXPECT_FALSE(WorkerSession::attach(valid, std::ref(mending))->lost());
  EXPECT_TRUE(mending.has_mended()) << mending.said();
}

TEST_F(OverTls, BothEndsNoticeAHostThatIsGone) {
  start(1);
  const auto session = attach(0, 1);
  int ends = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family != AF_INET) continue;
    ++ends;
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_LE(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 60) << "seconds until the first probe";
    EXPECT_LE(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 60);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 60'000) << "milliseconds";
  }
  EXPECT_EQ(ends, 2);
}

TEST_F(OverTls, PlaintextEndsAtTheDoor) {
  start(1);
  asio::io_context context;
  asio::ip::tcp::socket stranger(context);
  stranger.connect({asio::ip::make_address("127.0.0.1"), port_});
  asio::write(stranger, asio::buffer(std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n")));
  std::array<char, 4096> answer;
  std::error_code error;
  while (!error) stranger.read_some(asio::buffer(answer), error);
  EXPECT_FALSE(attach(0, 1)->lost());
}

TEST_F(OverTls, SilentStrangersGiveWayOldestFirst) {
  start(1);
  asio::io_context context;
  std::vector<asio::ip::tcp::socket> crowd;
  for (int i = 0; i < 65; ++i) {
    crowd.emplace_back(context).connect({asio::ip::make_address("127.0.0.1"), port_});
  }
  char byte = 0;
  std::error_code error;
  crowd.front().read_some(asio::buffer(&byte, 1), error);
  EXPECT_EQ(error, asio::error::eof);
  crowd.back().non_blocking(true);
  crowd.back().read_some(asio::buffer(&byte, 1), error);
  EXPECT_EQ(error, asio::error::would_block) << "who came last still has the time to shake hands";
  EXPECT_FALSE(attach(0, 1)->lost());
}

TEST_F(OverTls, AWorkerOfAnotherRegionIsToldSoBeforeItSaysAnything) {
  start(1);
  inter::add_region(certificates_, "us");
  AttachRequest wrong = request(0, 1);
  wrong.region = "us";
  try {
    WorkerSession::attach(wrong, keep);
    FAIL() << "it attached";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("coordinator of eu"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace causeway::diloco
