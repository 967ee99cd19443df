#include "diloco/files/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <openssl/rand.h>

#include "inter/base/hash.h"
#include "inter/base/text.h"

namespace causeway::diloco {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor Descriptor::duplicate() const {
  const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) throw std::system_error(errno, std::system_category(), "duplicating a descriptor");
  return Descriptor(fd);
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// A disk that takes none now is no matter.
void note_holder(int lock) {
  utsname host{};
  ::uname(&host);
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host.nodename);
  const bool emptied = ::ftruncate(lock, 0) == 0;
  if (emptied) (void)!::pwrite(lock, text.data(), text.size(), 0);
}

}  // namespace

void throw_errno(const std::string& what, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), what + " " + path.string());
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return inter::read_regular_file(path, std::numeric_limits<std::size_t>::max());
}

std::optional<Descriptor> lock_file(const std::filesystem::path& path, Held held) {
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (lock.get() < 0) throw_errno("create", path);
  struct flock whole = whole_file();
  const int command = held == Held::by_descriptor ? F_OFD_SETLK : F_SETLK;
  if (::fcntl(lock.get(), command, &whole) == 0) {
    ::futimens(lock.get(), nullptr);
    note_holder(lock.get());
    return lock;
  }
  if (errno != EAGAIN && errno != EACCES) throw_errno("lock", path);
  return std::nullopt;
}

// Its own process never asks: it would lose a lock that it holds for itself alone.
std::string lock_holder(const std::filesystem::path& path) {
  constexpr std::size_t kLongest = 200;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text(kLongest, '\0');
  const ssize_t size = file.get() < 0 ? 0 : ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  text = text.substr(0, text.find('\n'));
  return text.empty() ? "" : " (" + inter::printable(text) + ")";
}

bool is_locked(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock whole = whole_file();
  return file.get() >= 0 && ::fcntl(file.get(), F_OFD_GETLK, &whole) == 0 &&
         whole.l_type != F_UNLCK;
}

void touch(const std::filesystem::path& path) {
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
}

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      throw std::system_error(
          error, std::generic_category(),
          "cannot write " + path.string() + inter::room_left(error, path, bytes.size()));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

Descriptor open_to_append(const std::filesystem::path& path) {
  Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file.get() < 0) throw_errno("open", path);
  return file;
}

void append_whole(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const off_t before = ::lseek(fd, 0, SEEK_END);
  try {
    write_all(fd, bytes, path);
  } catch (...) {  // what comes next must not continue a part of this
    if (before >= 0) static_cast<void>(::ftruncate(fd, before) == 0);
    throw;
  }
}

void append_to_file(const std::filesystem::path& path, std::string_view text) {
  append_whole(open_to_append(path).get(), std::as_bytes(std::span(text)), path);
}

void append_to_rotated_file(const std::filesystem::path& path, std::string_view text,
                            std::uint64_t bytes_max) {
  namespace fs = std::filesystem;
  const auto older = [&path](const char* number) {
    return path.parent_path() / (path.stem().string() + number + path.extension().string());
  };
  const bool there = fs::exists(fs::symlink_status(path)) && !fs::is_symlink(path);
  const std::uint64_t size = there ? fs::file_size(path) : 0;
  if (size > 0 && size + text.size() > bytes_max) {
    const fs::path newer = older(".1"), oldest = older(".2");
    if (fs::exists(newer)) fs::rename(newer, oldest);
    fs::rename(path, newer);
  }
  append_to_file(path, text);
}

void replace_file(const std::filesystem::path& path, std::span<const std::byte> content,
                  Durability durability) {
  AtomicFile file(path);
  file.append(content);
  file.commit(durability);
}

void replace_file(const std::filesystem::path& path, std::string_view content,
                  Durability durability) {
  replace_file(path, std::as_bytes(std::span(content)), durability);
}

std::optional<std::array<std::uint8_t, 32>> file_hash(int descriptor,
                                                      const std::filesystem::path& path,
                                                      const std::function<bool()>& stop) {
  constexpr std::size_t kReadBytes = 4U << 20;
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
  inter::Sha256 sha256;
  std::vector<std::byte> buffer(kReadBytes);
  off_t offset = 0;
  while (!stop()) {
    const ssize_t count = ::pread(descriptor, buffer.data(), buffer.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("read", path);
    if (count == 0) return sha256.finish();
    sha256.update(std::span(buffer).first(static_cast<std::size_t>(count)));
    offset += count;
  }
  return std::nullopt;
}

namespace {

constexpr std::size_t kNameDigits = 32;

}  // namespace

bool is_random_name(const std::string& text) {
  return text.size() == kNameDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string random_name() {
  std::array<std::uint8_t, kNameDigits / 2> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw std::system_error(std::make_error_code(std::errc::io_error), "no random bytes");
  }
  return inter::hex(bytes);
}

}  // namespace causeway::diloco
