// Two ends of TLS over a pair of BIOs in memory.
#include "inter/tls/tls_stream.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "inter/tls/pki.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

using Outcome = TlsStream::Outcome;

class TlsStreams : public testing::Test {
 protected:
  void SetUp() override {
    create_ca(directory_.path(), "test");
    BIO *near = nullptr, *far = nullptr;
    ASSERT_EQ(BIO_new_bio_pair(&near, 0, &far, 0), 1);
    near_ = near;
    const TlsContext client = context("a", TlsRole::client);
    SSL_CTX_set_msg_callback(client.get(), note_message);
    SSL_CTX_set_msg_callback_arg(client.get(), this);
    client_.emplace(BioPtr(near), client, TlsRole::client, kRecordsAKey);
    server_.emplace(BioPtr(far), context("b", TlsRole::server), TlsRole::server, kRecordsAKey);
  }

  // Of the client's.
  static void note_message(int written, int, int kind, const void* message, std::size_t size, SSL*,
                           void* self) {
    const bool new_key = kind == SSL3_RT_HANDSHAKE && size > 0 &&
                         *static_cast<const unsigned char*>(message) == SSL3_MT_KEY_UPDATE;
    if (!new_key) return;
    auto& streams = *static_cast<TlsStreams*>(self);
    ++(written == 1 ? streams.new_keys_ : streams.new_keys_there_);
  }

  TlsContext context(const std::string& region, TlsRole role) {
    add_region(directory_.path(), region);
    return make_tls_context(credentials_in(directory_.path(), region), role);
  }

  void shake_hands() {
    for (int i = 0; i < 3; ++i) {
      client_->handshake();
      server_->handshake();
    }
    ASSERT_EQ(client_->handshake().outcome, Outcome::done);
    ASSERT_EQ(server_->handshake().outcome, Outcome::done);
  }

  // The client's host is gone: what is under way arrives, and then nothing more.
  void cut_off() { BIO_shutdown_wr(near_); }

  static std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
  }
  static std::pair<Outcome, std::string> read(TlsStream& stream) {
    std::string into(100'000, '\0');
    const auto step = stream.read(std::as_writable_bytes(std::span(into)));
    return {step.outcome, into.substr(0, step.bytes)};
  }
  static std::string failure_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const LinkError& error) {
      return error.reason();
    }
    return "";
  }

  static constexpr std::uint64_t kRecordsAKey = 1000;

  test::TemporaryDirectory directory_;
  int new_keys_ = 0, new_keys_there_ = 0;  // of the client's writing, and of the server's
  BIO* near_ = nullptr;                    // the client's
  std::optional<TlsStream> client_, server_;
};

TEST_F(TlsStreams, BothEndsKnowWhoseCertificateTheOtherHas) {
  EXPECT_EQ(client_->handshake().outcome, Outcome::wants_reading);
  shake_hands();
  EXPECT_EQ(client_->peer_region(), "b");
  EXPECT_EQ(server_->peer_region(), "a");
}

TEST_F(TlsStreams, WhatIsWrittenArrives) {
  shake_hands();
  EXPECT_EQ(read(*server_).first, Outcome::wants_reading);
  EXPECT_EQ(client_->write(bytes_of("one")).bytes, 3U);
  EXPECT_EQ(server_->write(bytes_of("two")).bytes, 3U);
  EXPECT_EQ(read(*server_), std::pair(Outcome::done, std::string("one")));
  EXPECT_EQ(read(*client_), std::pair(Outcome::done, std::string("two")));
  EXPECT_EQ(client_->written_bytes(), server_->read_bytes());
}

TEST_F(TlsStreams, AFullStreamGoesOnWhereItStopped) {
  shake_hands();
  std::string all, arrived;
  for (int i = 0; i < 200'000; ++i) all += static_cast<char>('a' + i % 26);
  bool waited = false;
  for (std::size_t sent = 0; sent < all.size();) {
    const std::string rest = all.substr(sent);  // the same bytes, somewhere else
    const auto step = client_->write(bytes_of(rest));
    sent += step.bytes;
    if (step.outcome == Outcome::wants_writing) {
      waited = true;
      arrived += read(*server_).second;
    }
  }
  for (auto more = read(*server_); more.first == Outcome::done; more = read(*server_)) {
    arrived += more.second;
  }
  EXPECT_TRUE(waited);
  EXPECT_EQ(arrived, all);
}

TEST_F(TlsStreams, WhoeverWritesManyRecordsTakesNewKeys) {
  shake_hands();
  for (std::uint64_t i = 0; i < 3 * kRecordsAKey; ++i) {
    client_->write(bytes_of(std::to_string(i)));
    ASSERT_EQ(read(*server_), std::pair(Outcome::done, std::to_string(i)));
  }
  EXPECT_EQ(new_keys_, 2);
  EXPECT_EQ(new_keys_there_, 0) << "which has written nothing";
  server_->write(bytes_of("one"));
  EXPECT_EQ(read(*client_), std::pair(Outcome::done, std::string("one")));
  for (std::uint64_t i = 0; i < 100 * kRecordsAKey; ++i) {
    server_->write(bytes_of("x"));
    read(*client_);
  }
  EXPECT_EQ(new_keys_there_, 100) << "one for so many, however often";
}

TEST_F(TlsStreams, AFullStreamTakesNewKeysToo) {
  shake_hands();
  std::size_t sent = 0, arrived = 0;
  while (sent < 100 * kRecordsAKey) {
    while (client_->write(bytes_of("x")).outcome == Outcome::done) ++sent;
    for (auto more = read(*server_); more.first == Outcome::done; more = read(*server_)) {
      ASSERT_EQ(more.second.find_first_not_of('x'), std::string::npos);
      arrived += more.second.size();
    }
    ASSERT_GE(arrived, sent);
  }
  EXPECT_GE(new_keys_, 90);
}

TEST_F(TlsStreams, APeerThatSaysSoHasEndedIt) {
  shake_hands();
  client_->write(bytes_of("last"));
  client_->end();
  cut_off();
  EXPECT_EQ(read(*server_).second, "last");
  EXPECT_EQ(read(*server_).first, Outcome::ended);
  EXPECT_EQ(read(*server_).first, Outcome::ended) << "and stays so";
}

TEST_F(TlsStreams, AStreamThatStopsWithoutThatWordWasCutOff) {
  shake_hands();
  client_->write(bytes_of("last"));
  cut_off();
  EXPECT_EQ(read(*server_).second, "last");
  EXPECT_EQ(failure_of([&] { read(*server_); }),
            "the connection was cut off: the peer did not close it");
}

TEST_F(TlsStreams, ARecordThatIsNotWholeWasCutOffToo) {
  shake_hands();
  client_->write(bytes_of(std::string(16'000, 'x')));
  client_->write(bytes_of(std::string(16'000, 'y')));  // of which the pair takes a part
  client_->end();                                      // cannot be said any more
  cut_off();
  EXPECT_EQ(read(*server_).second.size(), 16'000U);
  EXPECT_NE(failure_of([&] { read(*server_); }), "");
}

TEST_F(TlsStreams, AnEndDuringTheHandshakeSaysThat) {
  client_->handshake();
  cut_off();
  EXPECT_EQ(failure_of([&] { server_->handshake(); }),
            "the peer closed the connection during the TLS handshake");
}

TEST_F(TlsStreams, WhoNeverSpokeTlsIsSaidNotTo) {
  const std::string plain = "GET / HTTP/1.1\r\n\r\n";
  BIO_write(near_, plain.data(), static_cast<int>(plain.size()));
  EXPECT_EQ(failure_of([&] { server_->handshake(); }), "the peer does not speak TLS");
  server_->end();  // to nobody
}

TEST_F(TlsStreams, BytesThatWereReadAheadArePending) {
  shake_hands();
  EXPECT_FALSE(server_->has_pending());
  client_->write(bytes_of("one"));
  client_->write(bytes_of("two"));
  EXPECT_EQ(read(*server_).second, "one");
  EXPECT_TRUE(server_->has_pending());
  EXPECT_EQ(read(*server_).second, "two");
  EXPECT_FALSE(server_->has_pending());
}

TEST_F(TlsStreams, ABioThatCannotGatherDoesWithout) {
  shake_hands();
  client_->gather(1'000'000);
  client_->write(bytes_of("now"));
  EXPECT_EQ(client_->flush().outcome, Outcome::done);
  EXPECT_EQ(read(*server_).second, "now");
}

}  // namespace
}  // namespace causeway::inter
