#include "inter/base/pieces.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "inter/base/file.h"

namespace causeway::inter {

void take_turns(std::size_t count,
                const std::function<void(std::size_t, std::span<std::byte>)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto one = [&] {
    const PageBuffer buffer(kPieceBytes);
    for (std::size_t i = 0; (i = next++) < count;) {
      try {
        work(i, buffer.bytes());
      } catch (...) {
        next = count;
        throw;
      }
    }
  };
  // Where no more threads are allowed, it is done when it is waited for, and nothing is left then.
  auto other = std::async(std::launch::async | std::launch::deferred, one);
  one();
  other.get();
}

namespace {

// Pages of a file as this process would see them in its memory.
class Pages {
 public:
  Pages(int descriptor, std::uint64_t offset, std::size_t size)
      : size_(size),
        memory_(
            ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(offset))) {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, size_);
  }
  // Whether the kernel has all of them; nobody knows: no.
  bool are_cached(std::size_t begin, std::size_t bytes) const {
    std::vector<unsigned char> resident((bytes + kPageBytes - 1) / kPageBytes);
    return memory_ != MAP_FAILED &&
           ::mincore(static_cast<std::byte*>(memory_) + begin, bytes, resident.data()) == 0 &&
           std::ranges::all_of(resident, [](unsigned char page) { return (page & 1U) != 0; });
  }

 private:
  std::size_t size_;
  void* memory_;
};

// The same file, past the kernel's cache.
class PastCache {
 public:
  explicit PastCache(int descriptor)
      : descriptor_(::open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(),
                           O_RDONLY | O_DIRECT | O_CLOEXEC)) {}
  PastCache(const PastCache&) = delete;
  PastCache& operator=(const PastCache&) = delete;
  ~PastCache() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// At least so many bytes.
bool read_some(int descriptor, std::uint64_t offset, std::span<std::byte> room, std::size_t least) {
  const ssize_t got = ::pread(descriptor, room.data(), room.size(), static_cast<off_t>(offset));
  return got >= static_cast<ssize_t>(least);
}

}  // namespace

bool read_pieces(int descriptor, std::uint64_t offset, std::span<std::byte> out) {
  const std::uint64_t first = offset / kPageBytes * kPageBytes, end = offset + out.size();
  const Pages pages(descriptor, first, end - first);
  const PastCache direct(descriptor);
  std::atomic<bool> whole = direct.get() >= 0;
  const auto read = [&](std::size_t piece, std::span<std::byte> buffer) {
    const std::uint64_t begin = first + piece * kPieceBytes, from = std::max(begin, offset);
    const std::size_t bytes = std::min(kPieceBytes, end - begin);
    const auto part = out.subspan(from - offset, begin + bytes - from);
    bool done = false;
    if (whole && pages.are_cached(begin - first, bytes)) {
      done = read_some(descriptor, from, part, part.size());
    } else if (whole && read_some(direct.get(), begin, buffer, bytes)) {
      std::memcpy(part.data(), &buffer[from - begin], part.size());
      done = true;
    }
    if (!done) whole = false;
  };
  if (whole) take_turns((end - first + kPieceBytes - 1) / kPieceBytes, read);
  return whole;
}

}  // namespace causeway::inter
