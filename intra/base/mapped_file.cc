#include "intra/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>
#include <system_error>

#include "diloco/files/file_io.h"
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

// That it is a regular file and has something in it.
void check_usable(const struct stat& status, const std::filesystem::path& path) {
  if (S_ISDIR(status.st_mode))
    refuse_file(path, "is a directory; name its files, e.g. with a glob");
  if (!S_ISREG(status.st_mode)) refuse_file(path, "is not a regular file");
  if (status.st_size == 0) refuse_file(path, "is empty");
}

diloco::Descriptor open_to_read(const std::filesystem::path& path) {
  return diloco::Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

FileStamp stamp_in(const struct stat& status) {
  return {.inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim)};
}

}  // namespace

FileStamp stamp_of(int descriptor, const std::filesystem::path& path) {
  return stamp_in(examine(descriptor, path));
}

std::optional<FileIdentity> identity_of(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  const FileStamp stamp = stamp_in(status);
  return FileIdentity{.device = status.st_dev,
                      .inode = stamp.inode,
                      .size = stamp.size,
                      .modified_ns = stamp.modified_ns};
}

// All of a process are in a list, which a signal handler can go through.
struct MappedFile::Mapping {
  std::filesystem::path path;
  std::span<const std::byte> bytes;
  FileStamp stamp;
  dev_t device = 0;
  std::atomic<Mapping*> next = nullptr;
};

namespace {

std::mutex mappings_mutex;  // for changes
std::atomic<MappedFile::Mapping*> newest_mapping = nullptr;

void enter_in_list(MappedFile::Mapping& mapping) {
  const std::lock_guard lock(mappings_mutex);
  mapping.next = newest_mapping.load();
  newest_mapping = &mapping;
}

void take_from_list(const MappedFile::Mapping& mapping) {
  const std::lock_guard lock(mappings_mutex);
  std::atomic<MappedFile::Mapping*>* place = &newest_mapping;
  while (*place != &mapping) place = &place->load()->next;
  *place = mapping.next.load();
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : mapping_(std::make_unique<Mapping>()) {
  mapping_->path = path;
  const diloco::Descriptor file = open_to_read(path);  // the mapping outlives it
  if (file.get() < 0) refuse_file(path, "cannot be opened: " + reason(errno));
  const struct stat status = examine(file.get(), path);
  check_usable(status, path);
  mapping_->stamp = stamp_in(status);
  mapping_->device = status.st_dev;
  const std::size_t size = mapping_->stamp.size;
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) refuse_file(path, "cannot be mapped into memory: " + reason(errno));
  mapping_->bytes = {static_cast<const std::byte*>(address), size};
  enter_in_list(*mapping_);
}

MappedFile::MappedFile(MappedFile&&) noexcept = default;

MappedFile::~MappedFile() {
  if (!mapping_) return;
  take_from_list(*mapping_);
  munmap(const_cast<std::byte*>(bytes().data()), bytes().size());
}

const std::filesystem::path& MappedFile::path() const {
  return mapping_->path;
}

std::span<const std::byte> MappedFile::bytes() const {
  return mapping_->bytes;
}

const FileStamp& MappedFile::stamp() const {
  return mapping_->stamp;
}

// Opened, as network file systems tell the truth then.
std::optional<MappedFile::Now> MappedFile::now() const {
  const diloco::Descriptor file = open_to_read(path());
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) return std::nullopt;
  const FileStamp found = stamp_in(status);
  return Now{found, found.inode != stamp().inode || status.st_dev != mapping_->device};
}

MappedAt mapped_at(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  for (const MappedFile::Mapping* one = newest_mapping; one != nullptr; one = one->next) {
    if (at >= one->bytes.data() && at < one->bytes.data() + one->bytes.size())
      return {.path = one->path.c_str(), .bytes = one->bytes.size()};
  }
  return {};
}

}  // namespace causeway::intra
