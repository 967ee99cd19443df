#include "diloco/spool_copy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>
#include <vector>

#include <asio/post.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/file_io.h"
#include "inter/sha256.h"

namespace causeway::diloco {
namespace {

constexpr std::size_t kPieceBytes = 4U << 20;  // whole chunks

// Fills the buffer from `offset` on.
std::span<const std::byte> read_piece(int file, std::uint64_t offset, std::span<std::byte> buffer) {
  std::size_t got = 0;
  while (got < buffer.size()) {
    const ssize_t result =
        ::pread(file, buffer.data() + got, buffer.size() - got, static_cast<off_t>(offset + got));
    if (result < 0 && errno == EINTR) continue;
    if (result < 0) throw_errno("read", "a worker's file");
    if (result == 0) {
      throw std::system_error(std::make_error_code(std::errc::io_error),
                              "a worker's file shrank while it was copied");
    }
    got += static_cast<std::size_t>(result);
  }
  return buffer;
}

asio::awaitable<void> let_others_run() {
  co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
}

}  // namespace

asio::awaitable<inter::BlobId> copy_to_spool(int file, inter::Spool& spool) {
  struct stat status {};
  if (::fstat(file, &status) != 0) throw_errno("fstat", "a worker's file");
  const auto size_bytes = static_cast<std::uint64_t>(status.st_size);
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kPieceBytes, size_bytes));
  const auto piece_at = [&](std::uint64_t offset) {
    const std::size_t length = std::min<std::uint64_t>(buffer.size(), size_bytes - offset);
    return read_piece(file, offset, std::span(buffer).first(length));
  };

  inter::Sha256 hash;
  for (std::uint64_t offset = 0; offset < size_bytes; offset += buffer.size()) {
    hash.update(piece_at(offset));
    co_await let_others_run();
  }
  const inter::BlobId blob{.hash = hash.finish(), .size_bytes = size_bytes};
  // A peer may be sending the same blob: what is here already is skipped, and either may be the one
  // who completes it.
  const std::uint64_t piece_chunks = kPieceBytes / inter::chunk_size(blob.size_bytes);
  const std::uint64_t chunks = inter::chunk_count(size_bytes);
  for (std::uint64_t chunk = 0; chunk < chunks && !spool.has(blob); chunk += piece_chunks) {
    spool.write(blob, chunk, piece_at(inter::chunk_offset(blob, chunk)));
    co_await let_others_run();
  }
  if (!spool.has(blob)) spool.check(blob);
  co_return blob;
}

}  // namespace causeway::diloco
