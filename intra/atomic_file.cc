#include "intra/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace causeway::intra {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void require(bool ok, const std::filesystem::path& file) {
  if (ok) return;
  throw std::system_error(errno, std::generic_category(),
                          "cannot write " + file.string() + "; check the disk and its permissions");
}

}  // namespace

void write_atomically(const std::filesystem::path& file, std::span<const std::byte> bytes,
                      Durability durability) {
  const std::filesystem::path temporary = file.string() + ".tmp";
  {
    const Descriptor out(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    require(out.get() >= 0, temporary);
    while (!bytes.empty()) {
      const ssize_t written = ::write(out.get(), bytes.data(), bytes.size());
      require(written > 0 || errno == EINTR, temporary);
      if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    if (durability == Durability::on_disk) require(::fsync(out.get()) == 0, temporary);
  }
  std::filesystem::rename(temporary, file);
}

}  // namespace causeway::intra
