#include "inter/base/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <system_error>

namespace causeway::inter {

File::File(std::filesystem::path path, int flags, unsigned mode)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, mode)) {
  if (descriptor_ < 0) {
    fail("open");
  }
}

File::~File() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void File::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno != EINTR) {
      fail("write");
    }
    if (written > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
  }
}

std::size_t File::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::pread(descriptor_, bytes.data() + filled, bytes.size() - filled,
                                static_cast<off_t>(offset + filled));
    if (got < 0 && errno != EINTR) {
      fail("read");
    }
    if (got == 0) {
      break;
    }
    filled += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return filled;
}

void File::resize(std::uint64_t size) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    fail("resize");
  }
}

void File::sync() {
  if (::fsync(descriptor_) != 0) {
    fail("sync");
  }
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
                          std::find(kAnswer.begin(), kAnswer.end(), system.f_type) != kAnswer.end();
  if (!can_answer || status.st_nlink != 1) {
    return false;
  }
  ::fcntl(descriptor_, F_SETSIG, SIGURG);  // whoever opens it meanwhile must not end us with SIGIO
  const bool granted = ::fcntl(descriptor_, F_SETLEASE, F_WRLCK) == 0;
  ::fcntl(descriptor_, F_SETLEASE, F_UNLCK);
  return granted;
}

bool is_out_of_room(const std::system_error& error) {
  return error.code() == std::errc::no_space_on_device ||
         error.code() == std::error_code(EDQUOT, std::generic_category());
}

void File::fail(const char* operation) const {
  throw std::system_error(errno, std::generic_category(),
                          std::string("cannot ") + operation + " " + path_.string());
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)),
      temporary_(path_.string() + ".tmp"),
      file_(temporary_, O_WRONLY | O_CREAT | O_TRUNC) {}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  file_.write_at(size_, bytes);
  size_ += bytes.size();
}

void AtomicFile::commit(Durability durability) {
  if (durability == Durability::on_disk) file_.sync();
  std::filesystem::rename(temporary_, path_);
  committed_ = true;
  if (durability == Durability::on_disk) sync_directory(path_.parent_path());
}

void sync_directory(const std::filesystem::path& directory) {
  File(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY).sync();
}

}  // namespace causeway::inter
