// Cuts aligned pieces from one block of memory, or with a null block only measures.
#pragma once

#include <cstddef>
#include <cstdint>

namespace causeway::intra {

class Arena {
 public:
  explicit Arena(std::byte* base, std::size_t alignment = 64)
      : base_(base), alignment_(alignment) {}

  void* bytes(std::size_t count) {
    const auto at = used_;
    used_ += (count + alignment_ - 1) / alignment_ * alignment_;
    return base_ == nullptr ? nullptr : base_ + at;
  }
  template <typename T>
  T* take(std::int64_t count) {
    return static_cast<T*>(bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t alignment_;
  std::size_t used_ = 0;
};

}  // namespace causeway::intra
