// Who is handed over at a listening port, and what becomes of everybody else.
#include "inter/door/tls_door.h"

#include <array>
#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/write.hpp>

#include "inter/tls/tls_stream.h"
#include "tests/support/captured_log.h"
#include "tests/support/test_pki.h"

namespace causeway::inter {
namespace {

using asio::ip::tcp;

const tcp::endpoint kAnyPort(asio::ip::address_v4::loopback(), 0);

// The owner of the door runs only when a test says so.
class Door : public testing::Test {
 protected:
  TlsDoorOptions options() const {
    return {.owner = "b",
            .credentials = pki_.credentials("b"),
            .handshake_deadline = std::chrono::minutes(5)};
  }
  void open(TlsDoorOptions options) {
    door_.emplace(owner_.get_executor(), std::move(options),
                  [this](TlsDoor::Guest guest) { guests_.push_back(std::move(guest)); });
    door_->listen(kAnyPort);
    door_->start();
  }
  tcp::socket knock() {
    tcp::socket socket(clients_);
    socket.connect({asio::ip::address_v4::loopback(), door_->port()});
    return socket;
  }
  // Blocks until the handshake is over.
  std::unique_ptr<TlsStream> shake_hands(tcp::socket& socket, const std::string& region) {
    const TlsContext context = make_tls_context(pki_.credentials(region), TlsRole::client);
    auto stream = std::make_unique<TlsStream>(make_socket_bio(socket.native_handle()), context,
                                              TlsRole::client);
    while (stream->handshake().outcome != TlsStream::Outcome::done) {
      ADD_FAILURE() << "the socket blocks";
    }
    return stream;
  }
  // What still comes until the door closes.
  static void read_to_the_end(tcp::socket& socket) {
    std::array<char, 4096> answer;
    std::error_code error;
    while (!error) socket.read_some(asio::buffer(answer), error);
  }
  void run_owner_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!done() && std::chrono::steady_clock::now() < end) {
      owner_.restart();
      owner_.run_one_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(done());
  }

  test::TestPki pki_{{"a", "b"}};
  test::CapturedLog log_;
  asio::io_context owner_, clients_;
  std::vector<TlsDoor::Guest> guests_;
  std::optional<TlsDoor> door_;
};

TEST_F(Door, WhoShowsACertificateIsHandedOverWithItsNameAndWhatItSaid) {
  open(options());
  tcp::socket socket = knock();
  const auto client = shake_hands(socket, "a");
  client->write(std::as_bytes(std::span("hello", 5)));
  run_owner_until([&] { return !guests_.empty(); });
  EXPECT_EQ(guests_[0].name, "a");
  guests_[0].socket.native_non_blocking(false);
  std::array<std::byte, 16> said{};
  EXPECT_EQ(guests_[0].stream->read(said).bytes, 5U);
}

TEST_F(Door, HandshakesGoOnWhileTheOwnerIsBusy) {
  open(options());
  tcp::socket socket = knock();
  shake_hands(socket, "a");  // nobody runs owner_
  EXPECT_TRUE(guests_.empty());
  run_owner_until([&] { return !guests_.empty(); });
}

TEST_F(Door, NobodyIsHandedOverOnceItIsClosed) {
  open(options());
  tcp::socket socket = knock();
  shake_hands(socket, "a");
  door_->close();
  owner_.run();
  EXPECT_TRUE(guests_.empty());
}

TEST_F(Door, WhoAsksForTooManyHandshakesIsClosedAndOthersAreNot) {
  TlsDoorOptions strict = options();
  strict.limits.stranger = {.per_s = 0, .at_once = 3};
  open(strict);
  std::vector<tcp::socket> crowd;
  for (int i = 0; i < 20; ++i) crowd.push_back(knock());
  for (int i = 3; i < 20; ++i) read_to_the_end(crowd[i]);
  EXPECT_TRUE(log_.has("too many handshakes a second"));
  EXPECT_LE(log_.count("b: refused 127.0.0.1:"), 5U) << "17 refusals: the 1st, 2nd, 4th, 8th, 16th";
  door_->expect(asio::ip::address_v4::loopback());
  tcp::socket member = knock();
  shake_hands(member, "a");
  run_owner_until([&] { return guests_.size() == 1; });
}

TEST_F(Door, AMembersAddressHasABudgetOfItsOwn) {
  TlsDoorOptions strict = options();
  strict.limits.stranger = {.per_s = 0, .at_once = 1};
  open(strict);
  for (std::size_t i = 1; i <= 3; ++i) {
    tcp::socket member = knock();
    shake_hands(member, "a");
    run_owner_until([&] { return guests_.size() == i; });
    door_->expect(asio::ip::address_v4::loopback());  // the first one speaks for those after it
  }
}

TEST_F(Door, ACertificateAloneMakesNoAddressAMembers) {
  TlsDoorOptions strict = options();
  strict.limits.stranger = {.per_s = 0, .at_once = 1};
  open(strict);
  tcp::socket reader = knock();
  shake_hands(reader, "a");
  run_owner_until([&] { return guests_.size() == 1; });
  tcp::socket again = knock();
  read_to_the_end(again);
  EXPECT_TRUE(log_.has("too many handshakes a second"));
}

}  // namespace
}  // namespace causeway::inter
