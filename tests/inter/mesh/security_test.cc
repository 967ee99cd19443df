// What must be refused, in which words, and that an honest peer is served all the same.
#include <algorithm>
#include <filesystem>

#include "inter/frame/frame_body.h"
#include "inter/mesh/mesh.h"
#include "tests/inter/mesh/mesh_fixture.h"
#include "tests/inter/mesh/rogue.h"

namespace causeway::inter {
namespace {

using testing::HasSubstr;

std::string text_of(const Bytes& bytes) {
  return to_text(bytes);
}

std::string hello_of(const std::string& sender, ConnectionKind kind = ConnectionKind::control) {
  return text_of(encode(Hello{kind, {1, 2, 3}, sender, "greeting"}));
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// Nobody is closed for having waited, however slow the machine.
void patient(MeshOptions& options) {
  options.handshake_deadline = std::chrono::minutes(5);
}

// "b" listens and expects "a". Every test ends with an honest "a" that comes up.
class T15Listener : public MeshTest {
 protected:
  void start_listener(const std::function<void(MeshOptions&)>& change = [](MeshOptions&) {}) {
    MeshOptions listener = options("b");
    point(listener, "a", 1);
    change(listener);
    add(listener).mesh->start();
  }
  Region& b() const { return *regions_[0]; }
  std::uint16_t port() const { return b().mesh->listening_port(); }

  // Replaces the certificate of "a" by another of the same CA.
  Credentials reissue(const std::string& region, std::chrono::seconds starts_in) {
    const Credentials files = pki_.credentials(region);
    std::filesystem::remove(files.certificate);
    std::filesystem::remove(files.key);
    add_region(pki_.path(), region, std::chrono::days(1), starts_in);
    return files;
  }

  void expect_refused(const std::string& words) {
    EXPECT_TRUE(run_until([&] { return log_.has(words); })) << "never logged: " << words;
    EXPECT_THAT(log_.text(), HasSubstr("b: refused 127.0.0.1:"));
    EXPECT_EQ(b().ups, 0);
  }

  void expect_honest_peer_works() {
    MeshOptions honest = options("a");
    point(honest, "b", port());
    Region& a = add(honest);
    a.mesh->start();
    ASSERT_TRUE(run_until([&] { return a.mesh->is_up("b") && b().mesh->is_up("a"); }));
    a.mesh->send("b", "honest");
    EXPECT_TRUE(run_until([&] { return !b().messages.empty(); }));
    EXPECT_EQ(b().ups, 1);
  }
};

TEST_F(T15Listener, WrongAuthority) {
  start_listener();
  const test::TestPki other({"a"});
  const auto rogue = rogue_tls(context_, port(), {other.credentials("a")}, hello_of("a"));
  expect_refused(
      "the peer's certificate (CN = a) was refused: unable to get local issuer certificate");
  EXPECT_TRUE(run_until([&] { return rogue->ended; }));
  EXPECT_THAT(rogue->error, HasSubstr("alert unknown ca"));
  expect_honest_peer_works();
}

TEST_F(T15Listener, ExpiredCertificate) {
  start_listener();
  const auto rogue =
      rogue_tls(context_, port(), {reissue("a", std::chrono::days(-10))}, hello_of("a"));
  expect_refused("the peer's certificate (CN = a) was refused: certificate has expired");
  EXPECT_TRUE(run_until([&] { return rogue->ended; }));
  EXPECT_THAT(rogue->error, HasSubstr("certificate expired"));
  reissue("a", std::chrono::seconds(-300));
  expect_honest_peer_works();
}

TEST_F(T15Listener, CertificateNotYetValid) {
  start_listener();
  rogue_tls(context_, port(), {reissue("a", std::chrono::days(10))}, hello_of("a"));
  expect_refused("the peer's certificate (CN = a) was refused: certificate is not yet valid");
  reissue("a", std::chrono::seconds(-300));
  expect_honest_peer_works();
}

TEST_F(T15Listener, SelfSignedCertificate) {
  start_listener();
  const test::TemporaryDirectory other;
  create_ca(other.path(), "a");
  const Credentials self_signed{{}, other.path() / "ca.crt", other.path() / "ca.key"};
  rogue_tls(context_, port(), {self_signed}, hello_of("a"));
  expect_refused("the peer's certificate (CN = a CA) was refused: self-signed certificate");
  expect_honest_peer_works();
}

TEST_F(T15Listener, NoClientCertificate) {
  start_listener();
  const auto rogue = rogue_tls(context_, port(), {}, hello_of("a"));
  expect_refused("the peer showed no client certificate");
  EXPECT_TRUE(run_until([&] { return rogue->ended; }));
  EXPECT_THAT(rogue->error, HasSubstr("certificate required"));
  expect_honest_peer_works();
}

TEST_F(T15Listener, CertificateOfAnotherRegion) {
  start_listener();
  const auto rogue = rogue_tls(context_, port(), {pki_.credentials("c")}, hello_of("a"));
  expect_refused("it greets as \"a\" with the certificate of \"c\"");
  EXPECT_TRUE(run_until([&] { return rogue->ended; }));
  EXPECT_THAT(rogue->received, HasSubstr("certificate of \"c\"")) << "the peer is told why";
  expect_honest_peer_works();
}

TEST_F(T15Listener, RegionThatIsNoPeer) {
  start_listener();
  rogue_tls(context_, port(), {pki_.credentials("c")}, hello_of("c"));
  expect_refused("region \"c\" is not a peer of \"b\": `causeway members add`");
  expect_honest_peer_works();
}

TEST_F(T15Listener, Tls12) {
  start_listener();
  const auto rogue = rogue_tls(context_, port(), {pki_.credentials("a"), true}, hello_of("a"));
  expect_refused("the peer speaks only TLS versions older than 1.3");
  EXPECT_TRUE(run_until([&] { return rogue->ended; }));
  EXPECT_FALSE(rogue->handshaken);
  expect_honest_peer_works();
}

TEST_F(T15Listener, PlaintextHttp) {
  start_listener();
  rogue_tcp(context_, port(), "GET / HTTP/1.1\r\nHost: b\r\n\r\n");
  expect_refused("the peer does not speak TLS");
  expect_honest_peer_works();
}

TEST_F(T15Listener, PlaintextFrames) {
  start_listener();
  rogue_tcp(context_, port(), hello_of("a"));
  expect_refused("the peer does not speak TLS");
  expect_honest_peer_works();
}

TEST_F(T15Listener, Garbage) {
  start_listener();
  rogue_tcp(context_, port(), std::string(1000, '\xa5'));
  expect_refused("the peer does not speak TLS");
  expect_honest_peer_works();
}

TEST_F(T15Listener, TruncatedHandshake) {
  start_listener();
  // The start of a record that announces a ClientHello of 256 bytes.
  rogue_tcp_that_leaves(context_, port(), std::string("\x16\x03\x01\x01\x00\x01\x00\x00\xfc", 9));
  expect_refused("the peer closed the connection during the TLS handshake");
  expect_honest_peer_works();
}

TEST_F(T15Listener, SlowLorisMeetsTheHandshakeDeadline) {
  start_listener(
      [](MeshOptions& options) { options.handshake_deadline = std::chrono::milliseconds(500); });
  const auto rogue = rogue_tcp(context_, port(), std::string("\x16\x03\x01\x01", 4));
  expect_refused("no TLS handshake within 0.5 s");
  EXPECT_TRUE(run_until([&] { return rogue->ended; }));
  expect_honest_peer_works();
}

TEST_F(T15Listener, SilenceAfterTheHandshakeMeetsADeadlineToo) {
  start_listener(
      [](MeshOptions& options) { options.handshake_deadline = std::chrono::milliseconds(500); });
  const auto rogue = rogue_tls(context_, port(), {pki_.credentials("a")}, "");
  expect_refused("no greeting within 0.5 s");
  EXPECT_TRUE(rogue->handshaken);
  expect_honest_peer_works();
}

TEST_F(T15Listener, DataConnectionWithoutControl) {
  start_listener();
  rogue_tls(context_, port(), {pki_.credentials("a")}, hello_of("a", ConnectionKind::data));
  expect_refused("no control connection waits for this data connection");
  expect_honest_peer_works();
}

TEST_F(T15Listener, DataConnectionOfAnOlderSession) {
  start_listener();
  // One session with the nonce of hello_of() begins and is replaced by the honest one.
  rogue_tls(context_, port(), {pki_.credentials("a")},
            hello_of("a") + text_of(encode_empty(FrameType::accept)));
  ASSERT_TRUE(run_until([&] { return b().ups == 1; }));
  MeshOptions honest = options("a");
  point(honest, "b", port());
  Region& a = add(honest);
  a.mesh->start();
  ASSERT_TRUE(run_until([&] { return b().ups == 2 && a.mesh->is_up("b"); }));
  rogue_tls(context_, port(), {pki_.credentials("a")}, hello_of("a", ConnectionKind::data));
  ASSERT_TRUE(
      run_until([&] { return log_.has("no control connection waits for this data connection"); }));
  EXPECT_TRUE(b().mesh->is_up("a"));
  a.mesh->send("b", "undisturbed");
  EXPECT_TRUE(run_until([&] { return !b().messages.empty(); }));
}

// Every byte of a session, played back at the same listener: its half of the keys is another one
// now.
TEST_F(T15Listener, ReplayOfAnOlderSession) {
  start_listener();
  const auto proxy = std::make_shared<CutProxy>(context_, port());
  proxy->accept();
  MeshOptions honest = options("a");
  honest.data_connections = 1;
  point(honest, "b", proxy->port());
  Region& a = add(honest);
  a.mesh->start();
  ASSERT_TRUE(run_until([&] { return a.mesh->is_up("b"); }));
  a.mesh->send("b", "commit this");
  ASSERT_TRUE(run_until([&] { return !b().messages.empty(); }));
  const std::string recorded = proxy->recorded();
  stop(*a.mesh);
  proxy->close();
  ASSERT_TRUE(run_until([&] { return !b().mesh->is_up("a"); }));
  EXPECT_GT(recorded.size(), 500U);
  rogue_tcp(context_, port(), recorded);
  ASSERT_TRUE(run_until([&] { return log_.has(": TLS failed: "); }));
  EXPECT_THAT(log_.text(), HasSubstr("b: refused 127.0.0.1:"));
  EXPECT_EQ(b().messages.size(), 1U) << "the message must not count twice";
  EXPECT_EQ(b().ups, 1);
}

TEST_F(T15Listener, OversizeFrame) {
  start_listener();
  ByteWriter writer(kFrameHeaderBytes);
  write_frame_header(writer, FrameType::hello, 0xffffffff);
  rogue_tls(context_, port(), {pki_.credentials("a")}, text_of(writer.take()));
  expect_refused("frame too large: hello of 4294967295 bytes");
  expect_honest_peer_works();
}

TEST_F(T15Listener, GarbageUnderTls) {
  start_listener();
  rogue_tls(context_, port(), {pki_.credentials("a")}, std::string(1000, '\xa5'));
  expect_refused("invalid frame: wrong magic");
  expect_honest_peer_works();
}

TEST_F(T15Listener, WorkBeforeTheGreeting) {
  start_listener();
  rogue_tls(context_, port(), {pki_.credentials("a")},
            text_of(encode_text(FrameType::message, "commit this")));
  expect_refused("invalid frame: message before the greeting was over");
  EXPECT_TRUE(b().messages.empty());
  expect_honest_peer_works();
}

TEST_F(T15Listener, CrowdOfSilentStrangersKeepsNobodyOut) {
  start_listener();
  std::vector<Outcome> crowd;
  for (int i = 0; i < 260; ++i) {
    crowd.push_back(rogue_tcp(context_, port(), "\x16"));
  }
  expect_refused("too many unauthenticated peers wait for their handshake");
  expect_honest_peer_works();
}

TEST_F(T15Listener, CrowdFromOneAddressOnlyPushesOutItself) {
  constexpr int kCrowd = 300, kOfOneAddress = 64;
  start_listener(patient);
  const auto elsewhere = rogue_tcp(context_, port(), "\x16", {.source = "127.0.0.2"});
  std::vector<Outcome> crowd;
  for (int i = 0; i < kCrowd; ++i) {
    crowd.push_back(rogue_tcp(context_, port(), "\x16"));
  }
  const auto pushed_out = [&] {
    return std::count_if(crowd.begin(), crowd.end(), [](const auto& one) { return one->ended; });
  };
  EXPECT_TRUE(run_until([&] { return pushed_out() >= kCrowd - kOfOneAddress; })) << pushed_out();
  EXPECT_EQ(pushed_out(), kCrowd - kOfOneAddress);
  EXPECT_FALSE(elsewhere->ended) << "it came first, but it is alone";
  expect_honest_peer_works();
}

TEST_F(T15Listener, RefusedStrangersWhoDoNotCloseStayWithinTheLimitAndPushOutNobody) {
  constexpr std::ptrdiff_t kCrowd = 300, kLimit = 256;
  start_listener(patient);
  const auto shaking_hands = rogue_tcp(context_, port(), "\x16");
  const std::ptrdiff_t before = open_descriptors();
  for (std::ptrdiff_t i = 0; i < kCrowd; ++i) {
    const auto refused = rogue_tcp(context_, port(), std::string(1000, '\xa5'),
                                   {.source = "127.0.0.1", .keeps_socket = true});
    ASSERT_TRUE(run_until([&] { return refused->ended; }));
  }
  const std::ptrdiff_t more = open_descriptors() - before;  // their ends and ours
  EXPECT_LE(more, kCrowd + kLimit);
  EXPECT_GE(more, kCrowd + kLimit - 1) << "those who find room are let close themselves";
  EXPECT_FALSE(shaking_hands->ended);
  expect_honest_peer_works();
}

TEST_F(T15Listener, OversizeMessageOfAPeerDropsTheLink) {
  start_listener([](MeshOptions& options) { options.message_bytes_max = 1000; });
  MeshOptions dialler = options("a");
  point(dialler, "b", port());
  Region& a = add(dialler);
  a.mesh->start();
  ASSERT_TRUE(run_until([&] { return a.mesh->is_up("b"); }));
  a.mesh->send("b", std::string(1001, 'x'));
  ASSERT_TRUE(run_until([&] { return !b().downs.empty(); }));
  EXPECT_EQ(b().downs[0], "a:frame too large: message of 1001 bytes, at most 1000 are allowed");
  ASSERT_TRUE(run_until([&] { return a.ups == 2 && a.mesh->is_up("b"); }));
  a.mesh->send("b", "short");
  EXPECT_TRUE(run_until([&] { return !b().messages.empty(); }));
}

}  // namespace
}  // namespace causeway::inter
