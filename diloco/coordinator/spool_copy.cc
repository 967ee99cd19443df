#include "diloco/coordinator/spool_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include <asio/co_spawn.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/files/file_io.h"
#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/base/hash_tree.h"

namespace causeway::diloco {
namespace {

constexpr int kCopiesMax = 3;  // of a disk that gives other bytes back

// Fills the buffer from `offset` on.
void read_piece(const Descriptor& file, std::uint64_t offset, std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    const ssize_t got =
        ::pread(file.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read", "a worker's file");
    if (got == 0) {
      throw std::system_error(std::make_error_code(std::errc::io_error),
                              "a worker's file shrank while it was copied");
    }
    buffer = buffer.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

inter::BlobId copy(const Descriptor& from, std::uint64_t size_bytes,
                   const std::optional<std::filesystem::path>& to) {
  std::optional<inter::File> file;
  if (to) file.emplace(*to, O_WRONLY);
  // A file system lets one thread at a time write to a file. The others would spin, and take the
  // processor from the one that does.
  std::mutex writing;
  const auto write = [&](std::uint64_t offset, std::span<const std::byte> part) {
    {
      const std::lock_guard lock(writing);
      file->write_at(offset, part);
    }
    if ((offset + part.size()) % inter::File::kSyncBytes == 0) file->begin_sync();
  };
  // A part is in a cache from reading to writing.
  const auto copy_part = [&](std::uint64_t offset, std::size_t bytes) {
    static thread_local const inter::PageBuffer buffer(inter::kHashPartBytes);
    const auto part = buffer.bytes().first(bytes);
    read_piece(from, offset, part);
    if (file) write(offset, part);
    return inter::tree_hash(part);
  };
  const inter::Sha256Hash hash = inter::tree_hash(size_bytes, copy_part);
  if (file) file->sync();
  return {.hash = hash, .size_bytes = size_bytes};
}

}  // namespace

std::uint64_t size_of(const Descriptor& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_errno("fstat", "a worker's file");
  return static_cast<std::uint64_t>(status.st_size);
}

namespace {

using From = std::shared_ptr<const Descriptor>;
using To = std::optional<std::filesystem::path>;

// Coroutines for co_spawn's sake, which brings back what they return or throw.
asio::awaitable<inter::BlobId> copy_in_thread(From from, std::uint64_t size_bytes, To to) {
  co_return copy(*from, size_bytes, to);
}

asio::awaitable<std::optional<std::string>> check_in_thread(std::filesystem::path file,
                                                            inter::BlobId id) {
  co_return inter::damage_of(file, id);
}

// Until it is what it was meant to be.
asio::awaitable<inter::BlobId> copy_and_check(From from, std::uint64_t size_bytes, To to,
                                              asio::any_io_executor thread) {
  for (int copies = 1;; ++copies) {
    const inter::BlobId id =
        co_await asio::co_spawn(thread, copy_in_thread(from, size_bytes, to), asio::use_awaitable);
    if (!to) co_return id;
    const std::optional<std::string> damage =
        co_await asio::co_spawn(thread, check_in_thread(*to, id), asio::use_awaitable);
    if (!damage) co_return id;
    const std::string what =
        to->string() + " does not hold what was written to it: this host's disk or memory fails";
    if (copies == kCopiesMax) {
      throw std::system_error(std::make_error_code(std::errc::io_error), what);
    }
    spdlog::error("{}; it is written again", what);
  }
}

}  // namespace

asio::awaitable<Copied> copy_to_spool(Descriptor file, inter::Spool& spool,
                                      asio::any_io_executor thread) {
  const std::uint64_t size_bytes = size_of(file);
  const auto from = std::make_shared<const Descriptor>(std::move(file));
  for (;;) {
    Copied copied;
    std::exception_ptr full;
    To to;
    try {
      copied.draft = spool.draft(size_bytes);
      to = copied.draft->path();
    } catch (const std::system_error& error) {
      if (error.code() != inter::Errc::spool_full) throw;
      full = std::current_exception();
    }
    try {
      copied.blob = co_await copy_and_check(from, size_bytes, to, thread);
    } catch (const std::system_error& error) {
      if (!inter::is_out_of_room(error) || !spool.release_spares()) throw;
      continue;
    }
    if (full && !spool.has(copied.blob)) std::rethrow_exception(full);
    co_return copied;
  }
}

}  // namespace causeway::diloco
