// A third region, by way of which two others talk, that lies.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include <asio/local/connect_pair.hpp>
#include <asio/write.hpp>

#include "inter/mesh/greeting.h"
#include "inter/tls/tls.h"
#include "tests/inter/mesh/detour_fixture.h"

namespace causeway::inter {
namespace {

using asio::ip::tcp;
using testing::ElementsAre;
using testing::HasSubstr;

// Has the credentials of "c", links itself to both, and carries between them, if it likes to.
class Third {
 public:
  using Change = std::function<void(Bytes& bytes)>;

  Third(asio::io_context& context, const Credentials& credentials)
      : context_(context), tls_(make_tls_context(credentials, TlsRole::client)) {}

  void link(const std::string& region, std::uint16_t port) {
    const auto control = std::make_shared<Connection>(tcp::socket(context_), tls_, settings());
    links_[region] = control;
    spawn(serve(region, port, control));
  }
  bool linked() const { return linked_ == links_.size(); }
  void say(const std::string& region, Bytes frame) {
    spawn(write(links_.at(region), std::move(frame)));
  }
  // Begins a connection with `to` that seems to be from `from`, with these credentials.
  std::shared_ptr<Connection> pretend(const std::string& from, const std::string& to,
                                      const Credentials& credentials) {
    asio::local::stream_protocol::socket near(context_);
    own_.emplace(context_);
    asio::local::connect_pair(near, *own_);
    const auto inner = std::make_shared<Connection>(std::move(near), "inner",
                                                    make_tls_context(credentials, TlsRole::client),
                                                    TlsRole::client, settings());
    say(to, encode(FrameType::relayed,
                   {.step = Relay::Step::begin, .number = 7, .region = from, .bytes = {}}));
    spawn(carry_own(from, to));
    return inner;
  }
  void spawn(asio::awaitable<void> task) {
    ++running_;
    asio::co_spawn(context_, std::move(task), [this](std::exception_ptr) { --running_; });
  }
  void close() {
    for (const auto& [region, control] : links_) control->close(Errc::refused, "the test is over");
    if (own_) own_->close();
  }
  bool ended() const { return running_ == 0; }

  Change change = [](Bytes&) {};
  std::size_t ends = 0;  // that others told it

 private:
  static ConnectionSettings settings() { return {1U << 20, std::chrono::minutes(1), ""}; }

  asio::awaitable<void> serve(std::string region, std::uint16_t port,
                              std::shared_ptr<Connection> control) {
    const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), port);
    co_await control->connect(endpoint);
    co_await control->handshake();
    const Hello hello{ConnectionKind::control, {std::uint8_t(port)}, "c", "greeting of c"};
    const Judge judge = [](const std::string&) { return ""; };
    co_await greet_listener(*control, region, hello, judge);
    ++linked_;
    for (;;) {
      const FrameView frame = co_await control->read();
      if (frame.type != FrameType::relay) continue;
      const Relay relay = decode_relay(frame.body);
      co_await pass(region, relay);
    }
  }
  asio::awaitable<void> pass(std::string from, Relay relay) {
    if (relay.step == Relay::Step::end) ++ends;
    if (own_) {
      const Bytes bytes(relay.bytes.begin(), relay.bytes.end());
      co_await asio::async_write(*own_, asio::buffer(bytes), asio::use_awaitable);
      co_return;
    }
    const auto to = links_.find(relay.region);
    if (to == links_.end()) co_return;
    Bytes bytes(relay.bytes.begin(), relay.bytes.end());
    if (relay.step == Relay::Step::bytes) change(bytes);
    const Relay onward{.step = relay.step, .number = relay.number, .region = from, .bytes = bytes};
    const Bytes frame = encode(FrameType::relayed, onward);
    co_await to->second->write(frame);
  }
  asio::awaitable<void> carry_own(std::string from, std::string to) {
    std::array<std::byte, 4096> piece;
    for (;;) {
      const std::size_t size =
          co_await own_->async_read_some(asio::buffer(piece), asio::use_awaitable);
      const Relay onward{.number = 7, .region = from, .bytes = std::span(piece).first(size)};
      const Bytes frame = encode(FrameType::relayed, onward);
      co_await links_.at(to)->write(frame);
    }
  }
  static asio::awaitable<void> write(std::shared_ptr<Connection> to, Bytes frame) {
    co_await to->write(frame);
  }

  asio::io_context& context_;
  TlsContext tls_;
  std::map<std::string, std::shared_ptr<Connection>> links_;
  std::size_t linked_ = 0, running_ = 0;
  std::optional<asio::local::stream_protocol::socket> own_;
};

class LyingThird : public DetourTest {
 protected:
  LyingThird() {
    start_b(kNobody);
    start_a(kNobody);
    third_.link("a", a_->mesh->listening_port());
    third_.link("b", b_->mesh->listening_port());
    EXPECT_TRUE(
        run_until([&] { return third_.linked() && a_->mesh->is_up("c") && b_->mesh->is_up("c"); }));
  }
  ~LyingThird() override {
    third_.close();
    EXPECT_TRUE(run_until([&] { return third_.ended(); }));
  }
  void say_that_it_reaches_both() {
    for (const char* region : {"a", "b"}) third_.say(region, encode(Neighbours{{"a", "b"}}));
  }

  Third third_{context_, pki_.credentials("c")};
};

TEST_F(LyingThird, CarriesIfItDoesNotLie) {
  say_that_it_reaches_both();
  ASSERT_TRUE(meet("c"));
  expect_messages("by way of c");
}

TEST_F(LyingThird, CanChangeNothing) {
  third_.change = [](Bytes& bytes) { bytes.back() ^= std::byte{1}; };
  say_that_it_reaches_both();
  ASSERT_TRUE(run_until([&] { return log_.has("no link to b by way of c: "); }));
  EXPECT_FALSE(a_->mesh->is_up("b"));
  EXPECT_TRUE(a_->mesh->is_up("c")) << "what it carries does not end its own link";
  third_.change = [](Bytes&) {};
  ASSERT_TRUE(meet("c"));
  expect_messages("unchanged");
  third_.change = [](Bytes& bytes) { bytes.back() ^= std::byte{1}; };
  a_->mesh->send("b", "changed");
  ASSERT_TRUE(run_until([&] { return b_->downs.size() == 1; }));
  EXPECT_THAT(b_->messages, ElementsAre("a:unchanged"));
}

TEST_F(LyingThird, CannotRepeatWhatItCarried) {
  std::vector<Bytes> heard;
  third_.change = [&](Bytes& bytes) { heard.push_back(bytes); };
  say_that_it_reaches_both();
  ASSERT_TRUE(meet("c"));
  a_->mesh->send("b", "once");
  ASSERT_TRUE(run_until([&] { return !b_->messages.empty(); }));
  third_.change = [&](Bytes& bytes) { bytes = heard.back(); };
  a_->mesh->send("b", "twice");
  ASSERT_TRUE(run_until([&] { return !b_->downs.empty(); }));
  EXPECT_THAT(b_->messages, ElementsAre("a:once"));
}

TEST_F(LyingThird, CannotPassItselfOffAsAnother) {
  const auto inner = third_.pretend("a", "b", pki_.credentials("c"));
  const auto greet = [&]() -> asio::awaitable<void> {
    co_await inner->handshake();
    const Bytes hello = encode(Hello{ConnectionKind::detour, {}, "a", "greeting of a"});
    co_await inner->write(hello);
  };
  third_.spawn(greet());
  ASSERT_TRUE(run_until([&] { return log_.has("b: no link to a by way of c: "); }));
  EXPECT_TRUE(log_.has("the certificate at the other end is for \"c\", not for \"a\""));
  EXPECT_FALSE(b_->mesh->is_up("a"));
}

// Nobody passes on what came by way of a third region: there are no ways round.
TEST_F(LyingThird, OneHopIsAll) {
  const auto inner = third_.pretend("a", "b", pki_.credentials("a"));
  const auto greet = [&]() -> asio::awaitable<void> {
    co_await inner->handshake();
    const Hello hello{ConnectionKind::detour, {}, "a", "greeting of a"};
    const Judge judge = [](const std::string&) { return ""; };
    co_await greet_listener(*inner, "b", hello, judge);
    const Bytes frame = encode(
        FrameType::relay, {.step = Relay::Step::begin, .number = 1, .region = "c", .bytes = {}});
    co_await inner->write(frame);
  };
  third_.spawn(greet());
  ASSERT_TRUE(run_until([&] { return !b_->downs.empty(); }));
  EXPECT_THAT(b_->downs.front(), HasSubstr("a:invalid frame: relay on the relayed connection"));
}

// The other end took one for begun, and did not hear what was said to it meanwhile.
TEST_F(LyingThird, WhoLeavesADetourThatNeverBeganIsToldEverythingAnew) {
  const int ups = a_->ups;
  third_.say("a", encode_number(FrameType::messages_here, 7));
  ASSERT_TRUE(run_until([&] { return !a_->downs.empty(); }));
  EXPECT_THAT(a_->downs.front(), HasSubstr("c:the other end left the detour"));
  EXPECT_EQ(a_->ups, ups + 1);
  EXPECT_TRUE(a_->mesh->stats()["c"].up) << "the link stands";
}

// Each time what it lacks is sent anew.
TEST_F(LyingThird, CannotLeaveDetoursAtWill) {
  Bytes all;
  for (std::uint64_t detour = 1; detour < 100; ++detour) {
    const Bytes frame = encode_number(FrameType::messages_here, detour);
    all.insert(all.end(), frame.begin(), frame.end());
  }
  third_.say("a", all);
  const auto ended = [&] {
    return std::ranges::any_of(a_->downs, [](const std::string& down) {
      return down.find("it says too often that it left a detour") != std::string::npos;
    });
  };
  ASSERT_TRUE(run_until(ended));
  EXPECT_LT(a_->downs.size(), 30U);
}

TEST_F(LyingThird, CannotMakeHandshakesAtWill) {
  constexpr std::size_t kBegun = 1000;
  Bytes all;
  for (std::size_t i = 0; i < kBegun; ++i) {
    const Bytes frame = encode(
        FrameType::relayed, {.step = Relay::Step::begin, .number = i, .region = "a", .bytes = {}});
    all.insert(all.end(), frame.begin(), frame.end());
  }
  third_.say("b", all);
  // All but those within its budget, which ends those before them.
  ASSERT_TRUE(run_until([&] { return third_.ends >= kBegun - 50; }));
  EXPECT_TRUE(b_->mesh->is_up("c"));
  EXPECT_FALSE(b_->mesh->is_up("a"));
}

}  // namespace
}  // namespace causeway::inter
