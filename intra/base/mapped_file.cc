#include "intra/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "intra/base/error.h"

namespace causeway::intra {
namespace {

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& why) {
  throw std::system_error(Errc::bad_data, path.string() + " " + why);
}

std::string reason(int error) {
  return std::generic_category().message(error);
}

struct stat examine(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) refuse_file(path, "cannot be examined: " + reason(errno));
  return status;
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Size of an open regular file that has something in it.
std::size_t usable_size(int descriptor, const std::filesystem::path& path) {
  const struct stat status = examine(descriptor, path);
  if (S_ISDIR(status.st_mode))
    refuse_file(path, "is a directory; name its files, e.g. with a glob");
  if (!S_ISREG(status.st_mode)) refuse_file(path, "is not a regular file");
  if (status.st_size == 0) refuse_file(path, "is empty");
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

FileStamp stamp_of(int descriptor, const std::filesystem::path& path) {
  const struct stat status = examine(descriptor, path);
  return {.inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim)};
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) refuse_file(path, "cannot be opened: " + reason(errno));
  // The mapping outlives the descriptor, which is closed on every way out.
  struct Closer {
    int descriptor;
    ~Closer() { close(descriptor); }
  } closer{descriptor};
  const std::size_t size = usable_size(descriptor, path);
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) refuse_file(path, "cannot be mapped into memory: " + reason(errno));
  bytes_ = {static_cast<const std::byte*>(address), size};
  stamp_ = stamp_of(descriptor, path);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace causeway::intra
