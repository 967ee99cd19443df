// One flat span in a backend's memory, and the state's copy of it.
#pragma once

#include <cassert>
#include <cstddef>
#include <span>

#include "intra/cuda/jobs/backend.h"

namespace causeway::intra::cuda {

// What a region trains, in the memory of a device: flat fp32 spans laid out by diloco::Layout, as
// on the CPU.
struct TrainingSpans {
  std::span<float> params, gradients;
};

// Backend memory that grows when more is needed, and is not kept then.
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

class Mirror {
 public:
  // Copied in `queue`, of the backend.
  Mirror(Backend& backend, Queue& queue, std::size_t count, std::size_t slack = 0)
      : backend_(backend),
        queue_(queue),
        device_(reinterpret_cast<float*>(backend.allocate((count + slack) * sizeof(float))),
                count) {}
  // With room for `slack` more elements after its end.
  Mirror(Backend& backend, std::size_t count, std::size_t slack = 0)
      : Mirror(backend, backend, count, slack) {}
  ~Mirror() { backend_.release(reinterpret_cast<std::byte*>(device_.data())); }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  std::span<float> device() const { return device_; }

  // The device's copy becomes that of `host`, unless it is already. True if it was copied.
  bool load(std::span<const float> host) {
    assert(host.size() == device_.size());
    if (loaded_ == host.data()) return false;
    queue_.upload(host.data(), device_.data(), device_.size_bytes());
    loaded_ = host.data();
    return true;
  }
  void changed_on_device() { ahead_ = true; }
  void changed_on_host() {
    loaded_ = nullptr;
    ahead_ = false;
  }
  void settle(std::span<float> host) {
    if (!ahead_) return;
    assert(host.size() == device_.size());
    queue_.download(device_.data(), host.data(), device_.size_bytes());
    ahead_ = false;
  }

 private:
  Backend& backend_;
  Queue& queue_;
  std::span<float> device_;
  const float* loaded_ = nullptr;  // which host span the device holds
  bool ahead_ = false;             // steps were taken since
};

}  // namespace causeway::intra::cuda
