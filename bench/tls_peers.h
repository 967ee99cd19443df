// What the same bytes cost without our links: plain TLS 1.3 connections over loopback with our
// cipher, certificates and congestion control, one direction each, a thread at either end. Nothing
// is framed, acknowledged, checked or made durable.
#pragma once

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>

#include "inter/base/openssl.h"
#include "inter/mesh/connection.h"

namespace bench {

struct Cost {
  double seconds = 0, cpu_s = 0, hash_cpu_s = 0;
};

double cpu_seconds();  // of this process so far

// OpenSSL's calls over blocking sockets, a quarter of a megabyte each.
class RawTls {
 public:
  RawTls(const std::filesystem::path& pki, int connections);

  // `size` bytes over each connection: one buffer again and again.
  Cost run(std::size_t size);
  // As run(), but from a file into a new file, as our links do, in `directory`.
  Cost run_files(std::size_t size, const std::filesystem::path& directory);

 private:
  std::vector<std::pair<causeway::inter::SslPtr, causeway::inter::SslPtr>> pairs_;
};

// asio::ssl::stream as it comes, the same way.
class AsioTls {
 public:
  AsioTls(const std::filesystem::path& pki, int connections);
  Cost run(std::size_t size);

 private:
  using Stream = asio::ssl::stream<asio::ip::tcp::socket>;
  asio::io_context context_;
  asio::ssl::context client_, server_;
  std::vector<std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>>> pairs_;
};

// Our own connection without what a mesh does beside it: chunk frames from memory, read and
// dropped.
class OwnTls {
 public:
  OwnTls(const std::filesystem::path& pki, int connections);
  Cost run(std::size_t size);

 private:
  struct End {
    asio::io_context context{1};
    std::unique_ptr<causeway::inter::Connection> connection;
  };
  std::vector<std::pair<std::unique_ptr<End>, std::unique_ptr<End>>> pairs_;
};

}  // namespace bench
