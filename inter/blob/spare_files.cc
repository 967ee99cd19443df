#include "inter/blob/spare_files.h"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

#include "inter/base/file.h"

namespace causeway::inter {
namespace {

constexpr std::uint64_t kWorthwhileBytes = 64U << 10;
// A spare that nobody took while so many others came was of a size that does not come again.
constexpr std::uint64_t kPassedOverMax = 32;
constexpr std::string_view kPrefix = "spare-";

// Much larger files would be cut for nothing, much smaller ones are hardly better than none.
bool is_about(std::uint64_t size_bytes, std::uint64_t wanted_bytes) {
  return size_bytes / 2 <= wanted_bytes && wanted_bytes / 2 <= size_bytes;
}

bool is_ours_alone(const std::filesystem::path& file) {
  try {
    return File(file, O_RDONLY).is_nobody_elses();
  } catch (const std::system_error&) {
    return false;  // too many files are open, say: deleting needs none
  }
}

}  // namespace

SpareFiles::SpareFiles(std::filesystem::path directory) : directory_(std::move(directory)) {
  for (const auto& file : std::filesystem::directory_iterator(directory_)) {
    if (file.path().filename().string().starts_with(kPrefix)) {
      std::filesystem::remove(file.path());
    }
  }
}

void SpareFiles::keep(const std::filesystem::path& file) {
  std::error_code missing;
  const std::uint64_t size_bytes = std::filesystem::file_size(file, missing);
  if (missing || size_bytes < kWorthwhileBytes) {
    std::filesystem::remove(file);
    return;
  }
  const std::uint64_t number = kept_++;
  const auto path = directory_ / (std::string(kPrefix) + std::to_string(number));
  std::filesystem::rename(file, path);  // nobody finds it by its old name any more
  if (!is_ours_alone(path)) {
    std::filesystem::remove(path);
    return;
  }
  spares_.push_back({path, size_bytes, number});
  while (spares_.front().number + kPassedOverMax < number) {
    drop_oldest();
  }
}

void SpareFiles::take(const std::filesystem::path& path, std::uint64_t size_bytes) {
  const auto spare = std::find_if(spares_.rbegin(), spares_.rend(), [&](const Spare& candidate) {
    return is_about(candidate.size_bytes, size_bytes);
  });
  if (spare != spares_.rend()) {
    std::filesystem::rename(spare->path, path);
    spares_.erase(std::next(spare).base());
  }
  File(path, O_WRONLY | O_CREAT).resize(size_bytes);
}

std::uint64_t SpareFiles::bytes() const {
  std::uint64_t total = 0;
  for (const Spare& spare : spares_) {
    total += spare.size_bytes;
  }
  return total;
}

void SpareFiles::shrink_to(std::uint64_t bytes_max) {
  while (bytes() > bytes_max) {
    drop_oldest();
  }
}

void SpareFiles::drop_oldest() {
  std::error_code ignored;
  std::filesystem::remove(spares_.front().path, ignored);
  spares_.pop_front();
}

}  // namespace causeway::inter
