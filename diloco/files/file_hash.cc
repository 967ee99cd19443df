#include "diloco/files/file_hash.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "diloco/files/file_io.h"
#include "inter/base/hash.h"

namespace causeway::diloco {

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

}  // namespace causeway::diloco
