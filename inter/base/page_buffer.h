// Memory to read files into, at the beginning of a page: the kernel copies four times as slowly to
// a few bytes behind one, where malloc puts large blocks (seen on Zen 3).
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace causeway::inter {

class PageBuffer {
 public:
  explicit PageBuffer(std::size_t size)
      : memory_(static_cast<std::byte*>(::operator new(size, kPage))), size_(size) {}
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  static constexpr std::align_val_t kPage{4096};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kPage); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t size_;
};

}  // namespace causeway::inter
