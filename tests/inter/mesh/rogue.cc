#include "tests/inter/mesh/rogue.h"

#include <array>

#include <asio/ssl.hpp>
#include <asio/ssl/impl/src.hpp>  // Asio's TLS: compiled here, since our own links do without
#include <asio/write.hpp>

namespace causeway::inter {
namespace {

using asio::ip::tcp;

template <typename Stream>
struct Client : std::enable_shared_from_this<Client<Stream>> {
  template <typename... Arguments>
  explicit Client(Arguments&&... arguments) : stream(std::forward<Arguments>(arguments)...) {}

  void end(const std::error_code& error) {
    outcome->ended = true;
    outcome->error = error.message();
    if (keeps_socket) {
      stream.lowest_layer().async_wait(
          tcp::socket::wait_error, [self = this->shared_from_this()](const std::error_code&) {});
    }
  }

  void send_and_read() {
    asio::async_write(
        stream, asio::buffer(bytes),
        [self = this->shared_from_this()](const std::error_code&, std::size_t) { self->read(); });
  }

  void read() {
    stream.async_read_some(
        asio::buffer(buffer),
        [self = this->shared_from_this()](const std::error_code& error, std::size_t size) {
          if (error) {
            self->end(error);
            return;
          }
          self->outcome->received.append(self->buffer.data(), size);
          self->read();
        });
  }

  Stream stream;
  std::string bytes;
  std::array<char, 4096> buffer;
  bool keeps_socket = false;
  std::shared_ptr<RogueOutcome> outcome = std::make_shared<RogueOutcome>();
};

using TcpClient = Client<tcp::socket>;
using TlsClient = Client<asio::ssl::stream<tcp::socket>>;

tcp::endpoint loopback(std::uint16_t port) {
  return {asio::ip::address_v4::loopback(), port};
}

}  // namespace

Outcome rogue_tcp(asio::io_context& context, std::uint16_t port, std::string bytes,
                  const RogueTcp& settings) {
  const tcp::endpoint source(asio::ip::make_address(settings.source), 0);
  const auto client = std::make_shared<TcpClient>(context, source);
  client->bytes = std::move(bytes);
  client->keeps_socket = settings.keeps_socket;
  client->stream.async_connect(loopback(port),
                               [client](const std::error_code&) { client->send_and_read(); });
  return client->outcome;
}

void rogue_tcp_that_leaves(asio::io_context& context, std::uint16_t port, std::string bytes) {
  const auto client = std::make_shared<TcpClient>(context);
  client->bytes = std::move(bytes);
  client->stream.async_connect(loopback(port), [client](const std::error_code&) {
    asio::async_write(client->stream, asio::buffer(client->bytes),
                      [client](const std::error_code&, std::size_t) { client->stream.close(); });
  });
}

Outcome rogue_tls(asio::io_context& context, std::uint16_t port, const RogueTls& settings,
                  std::string bytes) {
  asio::ssl::context tls(asio::ssl::context::tls_client);
  if (settings.only_tls12) {
    SSL_CTX_set_max_proto_version(tls.native_handle(), TLS1_2_VERSION);
  }
  if (settings.credentials) {
    tls.use_certificate_file(settings.credentials->certificate, asio::ssl::context::pem);
    tls.use_private_key_file(settings.credentials->key, asio::ssl::context::pem);
  }
  const auto client = std::make_shared<TlsClient>(context, tls);
  client->bytes = std::move(bytes);
  client->stream.next_layer().async_connect(loopback(port), [client](const std::error_code&) {
    client->stream.async_handshake(asio::ssl::stream_base::client,
                                   [client](const std::error_code& error) {
                                     if (error) {
                                       client->end(error);
                                       return;
                                     }
                                     client->outcome->handshaken = true;
                                     client->send_and_read();
                                   });
  });
  return client->outcome;
}

namespace {

struct Listener : std::enable_shared_from_this<Listener> {
  Listener(asio::io_context& context, std::string bytes_in)
      : acceptor(context, loopback(0)), bytes(std::move(bytes_in)) {}

  void accept() {
    const auto socket = std::make_shared<tcp::socket>(acceptor.get_executor());
    acceptor.async_accept(*socket, [self = shared_from_this(), socket](const std::error_code& e) {
      if (!e) {
        asio::async_write(*socket, asio::buffer(self->bytes),
                          [self, socket](const std::error_code&, std::size_t) {});
        self->accept();
      }
    });
  }

  tcp::acceptor acceptor;
  std::string bytes;
};

}  // namespace

std::uint16_t rogue_listener(asio::io_context& context, std::string bytes) {
  const auto listener = std::make_shared<Listener>(context, std::move(bytes));
  listener->accept();
  return listener->acceptor.local_endpoint().port();
}

}  // namespace causeway::inter
