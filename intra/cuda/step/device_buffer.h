// Backend memory that grows when more is needed, and is not kept then.
#pragma once

#include <cstddef>

#include "intra/cuda/jobs/backend.h"

namespace causeway::intra::cuda {

template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(Backend& backend) : backend_(backend) {}
  ~DeviceBuffer() { release(); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* at_least(std::size_t count) {
    if (count <= count_) return memory_;
    release();
    memory_ = reinterpret_cast<T*>(backend_.allocate(count * sizeof(T)));
    count_ = count;
    return memory_;
  }

 private:
  void release() {
    if (memory_ != nullptr) backend_.release(reinterpret_cast<std::byte*>(memory_));
  }

  Backend& backend_;
  T* memory_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace causeway::intra::cuda
