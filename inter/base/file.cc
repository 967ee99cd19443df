#include "inter/base/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace causeway::inter {

namespace {

int guarded(int flags) {
  return flags | O_CLOEXEC | ((flags & O_CREAT) != 0 ? O_NOFOLLOW : 0);
}

}  // namespace

File::File(std::filesystem::path path, int flags, unsigned mode)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), guarded(flags), mode)) {
  if (descriptor_ < 0) fail("open");
}

File::File(const File& directory, const std::filesystem::path& name, int flags, unsigned mode)
    : path_(directory.path_ / name),
      descriptor_(::openat(directory.descriptor_, name.c_str(), guarded(flags), mode)) {
  if (descriptor_ < 0) fail("open");
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::write_at(std::uint64_t offset, std::span<const std::byte> bytes,
                    std::uint64_t following) {
  constexpr std::size_t kAtOnceBytes = 32U << 20, kBegunBytes = 4U << 20;
  while (!bytes.empty()) {
    const bool past_cache = past_cache_;
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kAtOnceBytes),
                 static_cast<off_t>(offset));
    if (written < 0 && (errno == EINVAL || errno == EOPNOTSUPP) && past_cache) {
      pass_cache(false);  // the file system wants larger multiples, or cannot after all
    } else if (written < 0 && errno != EINTR) {
      fail("write", bytes.size() + following);
    }
    if (written > 0) {
      // The kernel would begin when a tenth of the memory waits. A hint: failure means nothing.
      if (static_cast<std::size_t>(written) >= kBegunBytes && !past_cache)
        ::sync_file_range(descriptor_, static_cast<off_t>(offset), written, SYNC_FILE_RANGE_WRITE);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
  }
}

void File::begin_sync() noexcept {
  ::sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE);  // a hint: failure means nothing
}

std::size_t File::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::pread(descriptor_, bytes.data() + filled, bytes.size() - filled,
                                static_cast<off_t>(offset + filled));
    if (got < 0 && errno != EINTR) fail("read");
    if (got == 0) break;
    filled += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return filled;
}

void File::resize(std::uint64_t size) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) fail("resize");
}

// File systems have many errors for it, and some want more room than the file takes in the end: the
// writes tell what is missing.
void File::reserve(std::uint64_t size) {
  if (::fallocate(descriptor_, 0, 0, static_cast<off_t>(size)) != 0) resize(0);
}

bool File::pass_cache(bool past) noexcept {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  const bool done = ::fcntl(descriptor_, F_SETFL, past ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
  past_cache_ = past && done;
  return done;
}

void File::sync() {
  if (::fsync(descriptor_) != 0) fail("sync");
}

std::optional<std::uint64_t> File::regular_size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("examine");
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  return static_cast<std::uint64_t>(status.st_size);
}

bool File::has_name() const noexcept {
  struct stat status {};
  return ::fstat(descriptor_, &status) != 0 || status.st_nlink > 0;
}

bool File::lock() {
  return ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
}

void File::wait_for_lock() noexcept {
  while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

void File::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat(descriptor_, from.c_str(), descriptor_, to.c_str()) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot rename " + (path_ / from).string() + " to " + to.string());
  }
}

// Whatever the error: file systems without links have several for it, and one that is full or
// fails will refuse a copy as well.
bool File::link(const std::filesystem::path& file, const std::filesystem::path& name) noexcept {
  return ::linkat(AT_FDCWD, file.c_str(), descriptor_, name.c_str(), 0) == 0;
}

void File::remove(const std::filesystem::path& name) noexcept {
  ::unlinkat(descriptor_, name.c_str(), 0);
}

// The kernel grants a write lease (fcntl(2), F_SETLEASE) if nobody else has the file open.
// overlayfs does too where somebody has it mapped.
bool File::is_nobody_elses() const {
  constexpr std::array<long, 4> kAnswer{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                        TMPFS_MAGIC};
  struct statfs system {};
  struct stat status {};
  const bool can_answer = ::fstatfs(descriptor_, &system) == 0 &&
                          ::fstat(descriptor_, &status) == 0 &&
                          std::ranges::find(kAnswer, system.f_type) != kAnswer.end();
  if (!can_answer || status.st_nlink != 1) return false;
  ::fcntl(descriptor_, F_SETSIG, SIGURG);  // whoever opens it meanwhile must not end us with SIGIO
  const bool granted = ::fcntl(descriptor_, F_SETLEASE, F_WRLCK) == 0;
  ::fcntl(descriptor_, F_SETLEASE, F_UNLCK);
  return granted;
}

bool is_out_of_room(const std::system_error& error) {
  return error.code() == std::errc::no_space_on_device ||
         error.code() == std::errc::file_too_large ||
         error.code() == std::error_code(EDQUOT, std::generic_category());
}

bool fails_for_now(const std::error_code& code) {
  constexpr std::array kPassing{EIO,   EMFILE, ENFILE, ENOMEM, ENOLCK,    ESTALE,
                                EBUSY, ENXIO,  ENODEV, EINTR,  ETIMEDOUT, EHOSTDOWN};
  const bool of_kernel =
      code.category() == std::generic_category() || code.category() == std::system_category();
  return of_kernel && std::ranges::find(kPassing, code.value()) != kPassing.end();
}

std::string dangling_link_in(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  for (fs::path part = fs::absolute(path); part != part.parent_path(); part = part.parent_path()) {
    std::error_code error;
    if (!fs::is_symlink(part, error) || fs::exists(part, error) || error) continue;
    return part.string() + " is a link to " + fs::read_symlink(part, error).string() +
           ", which is not there";
  }
  return {};
}

std::string file_limit(int error) {
  rlimit limit{};
  const bool is_set = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (error != EFBIG || !is_set) return {};
  return fmt::format(" (ulimit -f allows {} bytes here: raise it, best to unlimited)",
                     limit.rlim_cur);
}

std::string room_left(int error, const std::filesystem::path& path, std::uint64_t bytes) {
  if (error == EFBIG) return file_limit(error);
  if (error != ENOSPC && error != EDQUOT) return {};
  struct statvfs disk {};
  const std::string where = path.has_parent_path() ? path.parent_path().string() : ".";
  const std::string free = ::statvfs(where.c_str(), &disk) == 0
                               ? std::to_string(std::uint64_t{disk.f_bavail} * disk.f_frsize)
                               : "an unknown number of";
  const bool no_inodes = disk.f_files > 0 && disk.f_favail == 0;
  return fmt::format(" ({} bytes more are needed, {} bytes are free{}", bytes, free,
                     no_inodes ? ", but the disk takes no more files: it has no inode left)" : ")");
}

void File::fail(const char* operation, std::uint64_t bytes) const {
  const int error = errno;
  const std::string hint =
      error == ELOOP ? " (symbolic links are not followed here)" : room_left(error, path_, bytes);
  throw std::system_error(error, std::generic_category(),
                          std::string("cannot ") + operation + " " + path_.string() + hint);
}

void create_private_directories(const std::filesystem::path& directory) {
  std::filesystem::path made;
  for (const std::filesystem::path& part : directory) {
    made /= part;
    if (std::filesystem::is_directory(made) || ::mkdir(made.c_str(), 0700) == 0) continue;
    const int error = errno == EEXIST ? ENOTDIR : errno;
    if (std::filesystem::is_directory(made)) continue;  // somebody else made it meanwhile
    throw std::filesystem::filesystem_error("cannot create a directory", directory,
                                            std::error_code(error, std::generic_category()));
  }
}

std::string read_regular_file(const std::filesystem::path& path, std::size_t bytes_max) {
  const File file(path, O_RDONLY | O_NONBLOCK);  // a pipe that nobody writes must not be waited for
  const std::optional<std::uint64_t> size = file.regular_size();
  if (!size) throw std::runtime_error(path.string() + " is not a regular file");
  if (*size > bytes_max) {
    throw std::runtime_error(
        fmt::format("{} has {} bytes, and at most {} are read", path.string(), *size, bytes_max));
  }
  std::string content(*size, '\0');
  content.resize(file.read_at(0, std::as_writable_bytes(std::span(content))));
  return content;
}

void sync_directory(const std::filesystem::path& directory) {
  File(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY).sync();
}

}  // namespace causeway::inter
