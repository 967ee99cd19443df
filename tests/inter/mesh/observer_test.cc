// Who may look at a coordinator from outside, and what everybody else is told.
#include "inter/mesh/observer.h"

#include <dlfcn.h>
#include <netdb.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <string_view>

#include "inter/frame/frame_body.h"
#include "tests/inter/mesh/mesh_fixture.h"
#include "tests/inter/mesh/rogue.h"

namespace {

constexpr const char* kTwoAddresses = "two-addresses.test";
constexpr const char* kTwoVersions = "two-versions.test";
constexpr const char* kSilentName = "silent.test";
std::atomic<bool> name_server_is_silent = false;
std::atomic<bool> lacks_ipv6 = false;

}  // namespace

// In place of the C library's, for this whole program.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name(host == nullptr ? "" : host);
  if (name == kSilentName) {
    name_server_is_silent.wait(true);
    return EAI_FAIL;
  }
  if (name != kTwoAddresses && name != kTwoVersions) return real(host, service, hints, found);
  const int failed = real(name == kTwoVersions ? "::1" : "127.0.0.2", service, hints, found);
  return failed != 0 ? failed : real("127.0.0.1", service, hints, &(*found)->ai_next);
}

extern "C" int socket(int domain, int type, int protocol) noexcept {
  static const auto real = reinterpret_cast<decltype(&::socket)>(::dlsym(RTLD_NEXT, "socket"));
  if (domain != AF_INET6 || !lacks_ipv6) return real(domain, type, protocol);
  errno = EAFNOSUPPORT;
  return -1;
}

namespace causeway::inter {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// "b" listens and expects "a".
class ObserverTest : public MeshTest {
 protected:
  ObserverTest() {
    add_observer(pki_.path(), "watch");
    MeshOptions listener = options("b");
    point(listener, "a", 1);
    add(listener).shown = "how b is";
    regions_[0]->mesh->start();
  }
  std::uint16_t port() const { return regions_[0]->mesh->listening_port(); }

  // What `credentials` get to see at `port`, or the error.
  std::string ask(std::uint16_t port, const Credentials& credentials,
                  milliseconds deadline = milliseconds{30'000}, const char* host = "127.0.0.1") {
    auto answer = std::async(std::launch::async, [=] {
      try {
        return observe({.address = {host, port}, .credentials = credentials, .deadline = deadline});
      } catch (const std::system_error& error) {
        return std::string(error.what());
      }
    });
    EXPECT_TRUE(
        run_until([&] { return answer.wait_for(milliseconds{0}) == std::future_status::ready; }));
    return answer.get();
  }
  std::string ask(const std::string& name) { return ask(port(), pki_.credentials(name)); }
};

TEST_F(ObserverTest, RegionsAndObserversSeeTheReport) {
  EXPECT_EQ(ask("watch"), "how b is");
  EXPECT_EQ(ask("a"), "how b is");
  EXPECT_EQ(ask("b"), "how b is");  // from its own host
  EXPECT_EQ(regions_[0]->ups, 0);
}

// A founder asks so whether its run is still there.
TEST_F(ObserverTest, RegionsThatWereDroppedForAReasonSeeTheReport) {
  regions_[0]->mesh->drop_peers("its disk is full");
  EXPECT_EQ(ask("a"), "how b is");
  EXPECT_THAT(ask("c"), HasSubstr("neither a region of this run"));
  regions_[0]->mesh->set_peers({});
  EXPECT_THAT(ask("a"), HasSubstr("neither a region of this run"));
}

TEST_F(ObserverTest, RegionThatIsNoMemberIsRefused) {
  EXPECT_THAT(ask("c"),
              HasSubstr("b refuses: \"c\" is neither a region of this run nor an observer"));
  EXPECT_THAT(log_.text(), HasSubstr("b: refused 127.0.0.1:"));
}

TEST_F(ObserverTest, CertificateOfAnotherAuthorityIsRefused) {
  const test::TestPki other({"a"});
  add_observer(other.path(), "watch");
  EXPECT_THAT(ask(port(), other.credentials("watch")),
              AllOf(HasSubstr("certificate"), HasSubstr("the run's own authority")));
  Credentials mixed = other.credentials("watch");
  mixed.ca_certificate = pki_.credentials("a").ca_certificate;
  EXPECT_THAT(ask(port(), mixed), HasSubstr("did not sign"));
}

TEST_F(ObserverTest, RevokedObserverIsRefused) {
  revoke_region(pki_.path(), "watch");
  MeshOptions listener = options("c");
  point(listener, "a", 1);
  Region& c = add(listener);
  c.mesh->start();
  EXPECT_THAT(ask(c.mesh->listening_port(), pki_.credentials("watch")), HasSubstr("revoked"));
}

TEST_F(ObserverTest, ObserverIsNoRegion) {
  const Hello hello{ConnectionKind::control, {1}, "watch.observer", "greeting"};
  const auto rogue =
      rogue_tls(context_, port(), {pki_.credentials("watch")}, to_text(encode(hello)));
  EXPECT_TRUE(run_until([&] { return rogue->ended; }));
  EXPECT_THAT(rogue->received, HasSubstr("is not a peer"));
}

TEST_F(ObserverTest, NobodyThereIsSaidToBeNobody) {
  const std::uint16_t gone = port();
  stop(*regions_[0]->mesh);
  EXPECT_THAT(ask(gone, pki_.credentials("watch")), HasSubstr("no coordinator listens there"));
}

TEST_F(ObserverTest, SilenceEndsAtTheDeadline) {
  asio::ip::tcp::acceptor silent(context_, {asio::ip::address_v4::loopback(), 0});
  EXPECT_THAT(ask(silent.local_endpoint().port(), pki_.credentials("watch"), milliseconds{200}),
              HasSubstr("no answer within 0.2 s"));
}

// A firewall is not to blame for that.
TEST_F(ObserverTest, ANameThatNobodyLooksUpInTimeIsSaidToBeOne) {
  name_server_is_silent = true;
  const std::string said = ask(1, pki_.credentials("watch"), milliseconds{1}, kSilentName);
  name_server_is_silent = false;
  name_server_is_silent.notify_all();
  EXPECT_THAT(said, HasSubstr("cannot look up silent.test: no answer within 0.0 s"));
}

// Somebody takes connections at the first and says nothing.
TEST_F(ObserverTest, OfANameWithTwoAddressesTheOneThatAnswersIsSeen) {
  asio::ip::tcp::acceptor silent(context_);
  silent.open(asio::ip::tcp::v4());
  silent.bind({asio::ip::make_address("127.0.0.2"), port()});
  silent.listen();
  EXPECT_EQ(ask(port(), pki_.credentials("watch"), milliseconds{30'000}, kTwoAddresses),
            "how b is");
}

TEST_F(ObserverTest, OnAHostWithoutIPv6TheOtherAddressIsSeen) {
  lacks_ipv6 = true;
  EXPECT_EQ(ask(port(), pki_.credentials("watch"), milliseconds{30'000}, kTwoVersions), "how b is");
  lacks_ipv6 = false;
}

TEST_F(ObserverTest, WhoIsRefusedDoesNotAskAgain) {
  ask("c");
  const std::string log = log_.text();
  EXPECT_EQ(log.find("refused 127"), log.rfind("refused 127")) << log;
}

TEST_F(ObserverTest, WhereLargePacketsAreLostSmallOnesAreTried) {
  const auto proxy = std::make_shared<CutProxy>(context_, port());
  proxy->treat_large(CutProxy::Large::stall_all);
  proxy->accept();
  EXPECT_EQ(ask(proxy->port(), pki_.credentials("watch")), "how b is");
  proxy->close();
}

TEST_F(ObserverTest, PortThatSpeaksSomethingElseIsNamedAsSuch) {
  const std::uint16_t other = rogue_listener(context_, "SSH-2.0-OpenSSH_9.2\r\n");
  EXPECT_THAT(ask(other, pki_.credentials("watch")), HasSubstr("not a coordinator's port"));
}

}  // namespace
}  // namespace causeway::inter
