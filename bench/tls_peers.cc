#include "bench/tls_peers.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/ssl/impl/src.hpp>  // Asio's TLS: compiled here, since our own links do without
#include <asio/write.hpp>

#include "inter/base/file.h"
#include "inter/frame/blob_chunks.h"
#include "inter/frame/frame_body.h"
#include "inter/tls/pki.h"
#include "inter/tls/tls_stream.h"

namespace bench {
namespace {

using asio::ip::tcp;
using causeway::inter::BlobId;
using causeway::inter::Connection;
using causeway::inter::File;
using causeway::inter::PageBuffer;
using causeway::inter::SslPtr;
using causeway::inter::TlsContext;
using causeway::inter::TlsRole;
using causeway::inter::TlsStream;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBufferBytes = 256U << 10;

TlsContext context_of(const std::filesystem::path& pki, TlsRole role) {
  const char* const region = role == TlsRole::client ? "a" : "b";
  return causeway::inter::make_tls_context(causeway::inter::credentials_in(pki, region), role);
}

std::pair<tcp::socket, tcp::socket> connected_sockets(asio::io_context& context) {
  tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  tcp::socket out(context);
  out.connect(acceptor.local_endpoint());
  tcp::socket in = acceptor.accept();
  return {std::move(out), std::move(in)};
}

template <typename Pairs, typename Send, typename Receive>
Cost measure(Pairs& pairs, const Send& send, const Receive& receive) {
  const double cpu = cpu_seconds();
  const auto began = Clock::now();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    threads.emplace_back([&, i] { send(*pairs[i].first, i); });
    threads.emplace_back([&, i] { receive(*pairs[i].second, i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return {std::chrono::duration<double>(Clock::now() - began).count(), cpu_seconds() - cpu, 0};
}

std::size_t must(int result) {
  if (result <= 0) {
    std::abort();
  }
  return static_cast<std::size_t>(result);
}

std::span<std::byte> piece(const PageBuffer& buffer, std::size_t rest) {
  return buffer.bytes().first(std::min(rest, kBufferBytes));
}

void write_all(SSL& ssl, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    bytes = bytes.subspan(must(SSL_write(&ssl, bytes.data(), static_cast<int>(bytes.size()))));
  }
}

// Runs `context` until `task` is done.
template <typename Result>
void complete(asio::io_context& context, asio::awaitable<Result> task) {
  asio::co_spawn(context, std::move(task), [](std::exception_ptr failure, auto&&...) {
    if (failure) std::rethrow_exception(failure);
  });
  context.restart();
  context.run();
}

}  // namespace

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

RawTls::RawTls(const std::filesystem::path& pki, int connections) {
  const TlsContext client = context_of(pki, TlsRole::client);
  const TlsContext server = context_of(pki, TlsRole::server);
  asio::io_context context;
  for (int i = 0; i < connections; ++i) {
    auto [out, in] = connected_sockets(context);
    SslPtr sender(SSL_new(client.get())), receiver(SSL_new(server.get()));
    SSL_set_fd(sender.get(), out.release());
    SSL_set_fd(receiver.get(), in.release());
    std::thread accepting([ssl = receiver.get()] { must(SSL_accept(ssl)); });
    must(SSL_connect(sender.get()));
    accepting.join();
    pairs_.emplace_back(std::move(sender), std::move(receiver));
  }
}

Cost RawTls::run(std::size_t size) {
  const auto send = [size](SSL& ssl, std::size_t) {
    const PageBuffer buffer(kBufferBytes);
    for (std::size_t rest = size; rest > 0; rest -= piece(buffer, rest).size()) {
      write_all(ssl, piece(buffer, rest));
    }
  };
  const auto receive = [size](SSL& ssl, std::size_t) {
    const PageBuffer buffer(kBufferBytes);
    for (std::size_t rest = size; rest > 0;) {
      rest -= must(SSL_read(&ssl, buffer.bytes().data(), kBufferBytes));
    }
  };
  return measure(pairs_, send, receive);
}

Cost RawTls::run_files(std::size_t size, const std::filesystem::path& directory) {
  const auto sent = directory / "raw-sent";
  const auto name = [&](std::size_t i) {
    return directory / ("raw-received-" + std::to_string(i));
  };
  const PageBuffer content(size);
  std::fill(content.bytes().begin(), content.bytes().end(), std::byte{1});
  File(sent, O_WRONLY | O_CREAT | O_TRUNC).write_at(0, content.bytes());
  const auto send = [&](SSL& ssl, std::size_t) {
    const PageBuffer buffer(kBufferBytes);
    const File file(sent, O_RDONLY);
    for (std::size_t offset = 0; offset < size; offset += kBufferBytes) {
      const auto part = piece(buffer, size - offset);
      must(static_cast<int>(file.read_at(offset, part)));
      write_all(ssl, part);
    }
  };
  const auto receive = [&](SSL& ssl, std::size_t i) {
    const PageBuffer buffer(kBufferBytes);
    File file(name(i), O_WRONLY | O_CREAT | O_TRUNC);
    for (std::size_t offset = 0; offset < size;) {
      const std::size_t got = must(SSL_read(&ssl, buffer.bytes().data(), kBufferBytes));
      file.write_at(offset, buffer.bytes().first(got));
      offset += got;
    }
  };
  const Cost cost = measure(pairs_, send, receive);
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    std::filesystem::remove(name(i));
  }
  std::filesystem::remove(sent);
  return cost;
}

AsioTls::AsioTls(const std::filesystem::path& pki, int connections)
    : client_(asio::ssl::context::tlsv13_client), server_(asio::ssl::context::tlsv13_server) {
  server_.use_certificate_file(pki / "b.crt", asio::ssl::context::pem);
  server_.use_private_key_file(pki / "b.key", asio::ssl::context::pem);
  SSL_CTX_set_ciphersuites(server_.native_handle(), "TLS_AES_128_GCM_SHA256");
  for (int i = 0; i < connections; ++i) {
    auto [out, in] = connected_sockets(context_);
    auto sender = std::make_unique<Stream>(std::move(out), client_);
    auto receiver = std::make_unique<Stream>(std::move(in), server_);
    std::thread accepting([&] { receiver->handshake(Stream::server); });
    sender->handshake(Stream::client);
    accepting.join();
    pairs_.emplace_back(std::move(sender), std::move(receiver));
  }
}

Cost AsioTls::run(std::size_t size) {
  const auto send = [size](Stream& stream, std::size_t) {
    const PageBuffer buffer(kBufferBytes);
    for (std::size_t rest = size; rest > 0; rest -= piece(buffer, rest).size()) {
      const auto part = piece(buffer, rest);
      asio::write(stream, asio::buffer(part.data(), part.size()));
    }
  };
  const auto receive = [size](Stream& stream, std::size_t) {
    const PageBuffer buffer(kBufferBytes);
    for (std::size_t rest = size; rest > 0;) {
      rest -= stream.read_some(asio::buffer(buffer.bytes().data(), kBufferBytes));
    }
  };
  return measure(pairs_, send, receive);
}

namespace {

void shake_hands(TlsStream& stream) {
  while (stream.handshake().outcome != TlsStream::Outcome::done) {
  }
}

}  // namespace

OwnTls::OwnTls(const std::filesystem::path& pki, int connections) {
  const TlsContext client = context_of(pki, TlsRole::client);
  const TlsContext server = context_of(pki, TlsRole::server);
  for (int i = 0; i < connections; ++i) {
    auto sender = std::make_unique<End>(), receiver = std::make_unique<End>();
    asio::io_context blocking;
    auto [out, in] = connected_sockets(blocking);
    auto to = std::make_unique<TlsStream>(causeway::inter::make_socket_bio(out.native_handle()),
                                          client, TlsRole::client);
    auto from = std::make_unique<TlsStream>(causeway::inter::make_socket_bio(in.native_handle()),
                                            server, TlsRole::server);
    std::thread accepting([&from] { shake_hands(*from); });
    shake_hands(*to);
    accepting.join();
    const causeway::inter::ConnectionSettings settings;
    sender->connection = std::make_unique<Connection>(
        tcp::socket(sender->context, tcp::v4(), out.release()), std::move(to), settings);
    receiver->connection = std::make_unique<Connection>(
        tcp::socket(receiver->context, tcp::v4(), in.release()), std::move(from), settings);
    pairs_.emplace_back(std::move(sender), std::move(receiver));
  }
}

Cost OwnTls::run(std::size_t size) {
  const BlobId id{{}, size};
  const auto send = [&](End& end, std::size_t) {
    complete(end.context, [](Connection& connection, BlobId blob) -> asio::awaitable<void> {
      causeway::inter::Bytes frame;
      for (std::uint64_t chunk = 0; chunk < causeway::inter::chunk_count(blob.size_bytes);
           ++chunk) {
        frame = causeway::inter::encode_chunk(blob, chunk, std::move(frame));
        co_await connection.write(frame);
      }
    }(*end.connection, id));
  };
  const auto receive = [&](End& end, std::size_t) {
    complete(end.context, [](Connection& connection, BlobId blob) -> asio::awaitable<void> {
      for (std::uint64_t chunk = 0; chunk < causeway::inter::chunk_count(blob.size_bytes);
           ++chunk) {
        const auto frame = co_await connection.read();
        static_cast<void>(frame);
      }
    }(*end.connection, id));
  };
  return measure(pairs_, send, receive);
}

}  // namespace bench
