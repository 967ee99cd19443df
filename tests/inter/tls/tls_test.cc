#include "inter/tls/tls.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>

#include "inter/tls/pki.h"
#include "inter/tls/tls_stream.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

// Two ends of a TLS connection, and what is under way between them.
class TlsInMemory : public testing::Test {
 protected:
  void SetUp() override {
    create_ca(directory_.path(), "test");
    client_ = make_end("a", TlsRole::client);
    server_ = make_end("b", TlsRole::server);
    SSL_set_connect_state(client_.get());
    SSL_set_accept_state(server_.get());
  }

  SslPtr make_end(const std::string& region, TlsRole role) {
    add_region(directory_.path(), region);
    const TlsContext context = make_tls_context(credentials_in(directory_.path(), region), role);
    SslPtr ssl(SSL_new(context.get()));
    SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    return ssl;
  }

  static std::string take(const SslPtr& from) {
    std::string bytes(BIO_ctrl_pending(SSL_get_wbio(from.get())), '\0');
    BIO_read(SSL_get_wbio(from.get()), bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  static void give(const SslPtr& to, const std::string& bytes) {
    BIO_write(SSL_get_rbio(to.get()), bytes.data(), static_cast<int>(bytes.size()));
  }

  static LinkError failure_of(const SslPtr& ssl, int result) {
    EXPECT_EQ(SSL_get_error(ssl.get(), result), SSL_ERROR_SSL);
    return describe_tls_failure(ssl.get(), ERR_peek_error());
  }

  void shake_hands() {
    for (int i = 0; i < 3; ++i) {
      SSL_do_handshake(client_.get());
      give(server_, take(client_));
      SSL_do_handshake(server_.get());
      give(client_, take(server_));
    }
    ASSERT_TRUE(SSL_is_init_finished(client_.get()) && SSL_is_init_finished(server_.get()));
  }

  struct Failures {
    LinkError of_server, of_client;
  };
  // Of a handshake in which the server's clock is wrong.
  Failures failures_with_server_ahead(std::chrono::seconds ahead) {
    remember_refused(server_.get(), &refused_);
    X509_VERIFY_PARAM_set_time(SSL_get0_param(server_.get()),
                               std::time(nullptr) + static_cast<std::time_t>(ahead.count()));
    SSL_do_handshake(client_.get());
    give(server_, take(client_));
    SSL_do_handshake(server_.get());
    give(client_, take(server_));
    SSL_do_handshake(client_.get());
    give(server_, take(client_));
    LinkError of_server = failure_of(server_, SSL_do_handshake(server_.get()));
    ERR_clear_error();
    give(client_, take(server_));
    char nothing = 0;
    return {of_server, failure_of(client_, SSL_read(client_.get(), &nothing, 1))};
  }

  test::TemporaryDirectory directory_;
  RefusedCertificate refused_;
  SslPtr client_, server_;
};

TEST_F(TlsInMemory, BothSidesTellDatesAndClockWhereOneClockIsTooLate) {
  const Failures failures = failures_with_server_ahead(std::chrono::days(400));
  EXPECT_EQ(failures.of_server.code(), Errc::not_valid_today);
  EXPECT_THAT(
      failures.of_server.reason(),
      testing::MatchesRegex(
          "the peer's certificate \\(CN = a\\) was refused: certificate has expired; it is "
          "valid from 2.*Z to 2.*Z, and this host's clock says 2...-..-..: renew it, or set "
          "the clock right"));
  EXPECT_EQ(failures.of_client.code(), Errc::not_valid_today);
  EXPECT_THAT(failures.of_client.reason(),
              testing::MatchesRegex("the peer refused our certificate or TLS: certificate expired; "
                                    "ours is valid from 2.*Z to 2.*Z, and this host's clock says "
                                    "2...-..-..: the peer's clock says something else.*"));
}

TEST_F(TlsInMemory, BothSidesTellDatesAndClockWhereOneClockIsTooEarly) {
  const Failures failures = failures_with_server_ahead(-std::chrono::days(400));
  EXPECT_EQ(failures.of_server.code(), Errc::not_valid_today);
  EXPECT_THAT(failures.of_server.reason(),
              testing::HasSubstr("certificate is not yet valid; it is valid from 2"));
  EXPECT_EQ(failures.of_client.code(), Errc::not_valid_today);
  EXPECT_THAT(failures.of_client.reason(),
              testing::HasSubstr("bad certificate; ours is valid from 2"));
}

TEST_F(TlsInMemory, ARecordThatChangedOnTheWayIsSaidToBeDamagedOrForged) {
  shake_hands();
  for (const std::size_t changed : {0U, 10U}) {  // of the header, of the content
    SslPtr& receiver = changed == 0 ? server_ : client_;
    SslPtr& sender = changed == 0 ? client_ : server_;
    SSL_write(sender.get(), "hello", 5);
    std::string bytes = take(sender);
    bytes[changed] ^= 0x40;
    give(receiver, bytes);
    char got[8];
    ERR_clear_error();
    const LinkError failure = failure_of(receiver, SSL_read(receiver.get(), got, sizeof got));
    EXPECT_EQ(failure.code(), std::make_error_code(std::errc::bad_message));
    EXPECT_NE(failure.reason().find("a record arrived damaged or forged"), std::string::npos)
        << failure.reason();
  }
}

TEST_F(TlsInMemory, ADamagedHandshakeIsNotTakenForAnotherProtocol) {
  SSL_do_handshake(client_.get());
  give(server_, take(client_));
  SSL_do_handshake(server_.get());
  std::string answer = take(server_);
  const std::size_t server_hello_end =
      5U + 256U * static_cast<unsigned char>(answer[3]) + static_cast<unsigned char>(answer[4]);
  answer[server_hello_end + 6 + 1] ^= 0x40;  // the version of the record behind the next, short one
  give(client_, answer);
  ERR_clear_error();
  const LinkError failure = failure_of(client_, SSL_do_handshake(client_.get()));
  EXPECT_NE(failure.reason().find("damaged"), std::string::npos) << failure.reason();
}

TEST_F(TlsInMemory, WhoNeverSpokeTlsIsSaidNotTo) {
  give(server_, "GET / HTTP/1.1\r\n\r\n");
  ERR_clear_error();
  EXPECT_EQ(failure_of(server_, SSL_do_handshake(server_.get())).reason(),
            "the peer does not speak TLS");
}

// What make_tls_context says of the files of a region.
class OwnFiles : public testing::Test {
 protected:
  void SetUp() override {
    create_ca(directory_.path(), "test");
    add_region(directory_.path(), "a");
  }
  Credentials files() const { return credentials_in(directory_.path(), "a"); }
  static std::string message_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::system_error& error) {
      return error.what();
    }
    return "";
  }
  std::string problem() const {
    return message_of([this] { make_tls_context(files(), TlsRole::server); });
  }

  test::TemporaryDirectory directory_;
};

TEST_F(OwnFiles, AKeyThatOtherUsersMayReadIsRefusedWithWhatToDo) {
  using std::filesystem::perms;
  EXPECT_EQ(problem(), "");
  for (const perms more : {perms::group_read, perms::others_read, perms::group_write}) {
    std::filesystem::permissions(files().key, perms::owner_read | perms::owner_write | more);
    EXPECT_NE(problem().find("`chmod 600 " + files().key.string() + "`"), std::string::npos)
        << problem();
  }
  std::filesystem::permissions(files().key, perms::owner_read);
  EXPECT_EQ(problem(), "");
}

TEST_F(OwnFiles, AnAuthorityThatDidNotSignTheCertificateIsRefusedWithBothNames) {
  const test::TemporaryDirectory other;
  create_ca(other.path(), "another");
  std::filesystem::copy(other.path() / "ca.crt", files().ca_certificate,
                        std::filesystem::copy_options::overwrite_existing);
  for (const char* words : {"ca.crt (CN = another CA) did not sign ", "a.crt (CN = a, issued by",
                            "CN = test CA)", "take all three files from the same"}) {
    EXPECT_NE(problem().find(words), std::string::npos) << problem();
  }
}

TEST_F(OwnFiles, AnAuthorityOfTheSameNameWithAnotherKeyIsRefusedToo) {
  const test::TemporaryDirectory other;
  create_ca(other.path(), "test");
  std::filesystem::copy(other.path() / "ca.crt", files().ca_certificate,
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(problem().find("did not sign"), std::string::npos) << problem();
}

TEST_F(OwnFiles, ACertificateForAnotherNameIsRefusedWithTheCommandThatMakesOne) {
  const std::pair<const char*, const char*> cases[] = {
      {"b", "`causeway certs add-region` makes one"},
      {"a.follower", "`causeway certs add-follower` makes one"},
      {"a.observer", "`causeway certs add-observer` makes one"}};
  for (const auto& [name, words] : cases) {
    const std::string said =
        message_of([&] { check_own_certificate(files(), name, Validity::required); });
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
}

TEST_F(OwnFiles, ACertificateThatIsNotValidTodayIsRefusedAtTheStartAndMissedLater) {
  const auto said_of = [this](const std::string& region, Validity validity) {
    return message_of([&] {
      check_own_certificate(credentials_in(directory_.path(), region), region, validity);
    });
  };
  add_region(directory_.path(), "old", std::chrono::days(1), std::chrono::days(-10));
  add_region(directory_.path(), "early", std::chrono::days(1), std::chrono::days(10));
  add_region(directory_.path(), "revoked");
  revoke_region(directory_.path(), "revoked");
  EXPECT_EQ(said_of("a", Validity::required), "");
  EXPECT_NE(said_of("old", Validity::required).find("old.crt has expired on 2"), std::string::npos);
  EXPECT_NE(said_of("early", Validity::required).find("is not yet valid: it begins on 2"),
            std::string::npos);
  EXPECT_NE(said_of("revoked", Validity::required).find("was revoked"), std::string::npos);
  for (const char* region : {"old", "early"}) {
    try {
      check_dates(credentials_in(directory_.path(), region));
      ADD_FAILURE() << region;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::not_valid_today) << region;
    }
  }
  EXPECT_NO_THROW(check_dates(credentials_in(directory_.path(), "revoked"))) << "that is for good";
  for (const char* region : {"old", "early", "revoked"}) {
    EXPECT_EQ(said_of(region, Validity::missed), "") << region;
    EXPECT_EQ(message_of([&] {
                make_tls_context(credentials_in(directory_.path(), region), TlsRole::server);
              }),
              "")
        << "links that stand go on";
  }
}

// A client that offers one group alone, and what comes of it.
class KeyExchange : public TlsInMemory, public testing::WithParamInterface<const char*> {
 protected:
  bool agrees(const char* group) {
    EXPECT_EQ(SSL_set1_groups_list(client_.get(), group), 1);
    SSL_do_handshake(client_.get());
    give(server_, take(client_));
    ERR_clear_error();
    const int result = SSL_do_handshake(server_.get());
    return SSL_get_error(server_.get(), result) == SSL_ERROR_WANT_READ;
  }
};

class Cheap : public KeyExchange {};
TEST_P(Cheap, IsOffered) {
  EXPECT_TRUE(agrees(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Groups, Cheap, testing::Values("X25519", "P-256"));

class Expensive : public KeyExchange {};
TEST_P(Expensive, IsNot) {
  EXPECT_FALSE(agrees(GetParam()));
  EXPECT_EQ(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_SUITABLE_KEY_SHARE);
}
INSTANTIATE_TEST_SUITE_P(Groups, Expensive,
                         testing::Values("ffdhe2048", "ffdhe8192", "X448", "P-384", "P-521"));

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  int writing_end() const { return ends_[0]; }
  std::string arrived() const {
    std::string bytes(1U << 20, '\0');
    const ssize_t size = ::recv(ends_[1], bytes.data(), bytes.size(), 0);
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return bytes;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(SocketBio, GathersUntilFlushed) {
  const Pipe pipe;
  const BioPtr bio = make_socket_bio(pipe.writing_end());
  BIO_set_write_buffer_size(bio.get(), 100);
  EXPECT_EQ(BIO_write(bio.get(), "one ", 4), 4);
  EXPECT_EQ(BIO_write(bio.get(), "two", 3), 3);
  EXPECT_EQ(pipe.arrived(), "");
  EXPECT_EQ(BIO_flush(bio.get()), 1);
  EXPECT_EQ(pipe.arrived(), "one two");
}

TEST(SocketBio, KeepsTheOrderWhenTheSocketIsFull) {
  const Pipe pipe;
  const BioPtr bio = make_socket_bio(pipe.writing_end());
  BIO_set_write_buffer_size(bio.get(), 64U << 10);
  std::string written, arrived;
  for (char letter = 'a'; BIO_write(bio.get(), std::string(10'000, letter).data(), 10'000) > 0;
       letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1)) {
    written += std::string(10'000, letter);
  }
  EXPECT_TRUE(BIO_should_retry(bio.get()));
  BIO_set_write_buffer_size(bio.get(), 0);
  while (BIO_flush(bio.get()) != 1) {
    ASSERT_TRUE(BIO_should_retry(bio.get()));
    arrived += pipe.arrived();
  }
  EXPECT_EQ(BIO_write(bio.get(), "end", 3), 3);
  for (std::string more = pipe.arrived(); !more.empty(); more = pipe.arrived()) {
    arrived += more;
  }
  EXPECT_EQ(arrived, written + "end");
}

}  // namespace
}  // namespace causeway::inter
