// Whom a dialler must refuse, and in which words.
#include "inter/mesh/mesh.h"
#include "tests/inter/mesh/mesh_fixture.h"
#include "tests/inter/mesh/rogue.h"

namespace causeway::inter {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kSoon{20};

// "a" dials something that it must not trust.
class T15Dialler : public MeshTest {
 protected:
  void start_dialler(
      std::uint16_t port, const std::function<void(MeshOptions&)>& change = [](MeshOptions&) {}) {
    MeshOptions dialler = options("a");
    point(dialler, "b", port);
    change(dialler);
    add(dialler).mesh->start();
  }
  std::uint16_t start_listener(const std::string& self, const Credentials& credentials) {
    MeshOptions listener = options(self);
    listener.credentials = credentials;
    listener.credentials_interval = kSoon;
    point(listener, "a", 1);
    Region& region = add(listener);
    region.mesh->start();
    return region.mesh->listening_port();
  }
  // Replaces its certificate by one that is over.
  void expire(const std::string& region) {
    context_.poll();  // who watches the files has seen the old one
    const Credentials files = pki_.credentials(region);
    std::filesystem::remove(files.certificate);
    std::filesystem::remove(files.key);
    add_region(pki_.path(), region, std::chrono::days(1), std::chrono::days(-10));
  }
  void expect_log(const std::string& words) {
    EXPECT_TRUE(run_until([&] { return log_.has(words); })) << "never logged: " << words;
    for (const auto& region : regions_) {
      EXPECT_EQ(region->ups, 0);
    }
  }
};

TEST_F(T15Dialler, ExpiredListenerIsRefusedAndBothSidesSayWhy) {
  const std::uint16_t port = start_listener("b", pki_.credentials("b"));
  expire("b");
  expect_log("b.crt has expired on 2");
  start_dialler(port);
  expect_log(
      "the peer's certificate (CN = b) was refused: certificate has expired; it is valid from");
  expect_log("b: refused 127.0.0.1:");
  expect_log("the peer refused our certificate or TLS: certificate expired");
}

TEST_F(T15Dialler, ExpiredDiallerLearnsWhyItIsRefused) {
  const std::uint16_t port = start_listener("b", pki_.credentials("b"));
  MeshOptions dialler = options("a");
  dialler.credentials_interval = kSoon;
  Region& a = add(dialler);
  a.mesh->start();
  expire("a");
  expect_log("a.crt has expired on 2");
  a.mesh->set_peers({{"b", {"127.0.0.1", port}}});
  expect_log("the peer's certificate (CN = a) was refused: certificate has expired");
  expect_log("a: no link to b at 127.0.0.1:");
  expect_log("the peer refused our certificate or TLS: certificate expired; ours has expired on 2");
}

TEST_F(T15Dialler, ExpiredCertificateIsNoneToStartWith) {
  expire("a");
  MeshOptions dialler = options("a");
  Region& a = add(dialler);
  EXPECT_THROW(a.mesh->start(), std::system_error);
}

TEST_F(T15Dialler, ListenerOfAnotherAuthority) {
  const test::TestPki other({"b"});
  start_dialler(start_listener("b", other.credentials("b")));
  expect_log("the peer's certificate (CN = b) was refused: unable to get local issuer certificate");
}

TEST_F(T15Dialler, ListenerOfAnotherRegion) {
  const std::uint16_t port = start_listener("c", pki_.credentials("c"));
  start_dialler(port);
  const std::string words = "is for \"c\", not for \"b\"";
  expect_log("a: no link to b at 127.0.0.1:" + std::to_string(port) + ": the certificate at ");
  expect_log(words);
  expect_log("c: refused 127.0.0.1:");
  expect_log("the peer refused us: the certificate at ");
}

TEST_F(T15Dialler, ListenerThatSpeaksPlaintext) {
  start_dialler(rogue_listener(context_, "HTTP/1.1 400 Bad Request\r\n\r\n"));
  expect_log("the peer does not speak TLS");
}

TEST_F(T15Dialler, ListenerThatNeverAnswers) {
  // The kernel completes the connection; nobody ever reads.
  asio::ip::tcp::acceptor silent(context_, {asio::ip::address_v4::loopback(), 0});
  start_dialler(silent.local_endpoint().port(), [](MeshOptions& dialler) {
    dialler.handshake_deadline = std::chrono::milliseconds(200);
  });
  expect_log("no TLS handshake within 0.2 s");
}

TEST_F(T15Dialler, UnreachableListener) {
  std::uint16_t port;
  {
    asio::ip::tcp::acceptor gone(context_, {asio::ip::address_v4::loopback(), 0});
    port = gone.local_endpoint().port();
  }
  start_dialler(port);
  expect_log("a: no link to b at 127.0.0.1:" + std::to_string(port) + ": Connection refused");
}

}  // namespace
}  // namespace causeway::inter
