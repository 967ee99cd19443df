// A GPU's streams, events and memory as objects that free themselves. All belong to the device that
// was current when they were made; failures throw as compression/cuda/error.h says.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cassert>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "compression/cuda/error.h"

namespace causeway::intra::cuda {

using compression::cuda::check;

// Makes device `index` the calling thread's. Returns its name. Throws saying which there are.
std::string use_device(int index);

// A point in a stream. With `timed`, milliseconds_since() works.
class Event {
 public:
  explicit Event(bool timed = false);
  cudaEvent_t get() const { return event_.get(); }
  bool reached() const;
  void synchronize() const;
  // Both reached.
  float milliseconds_since(const Event& start) const;

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  std::unique_ptr<CUevent_st, Destroy> event_;
};

// Work that runs in order, and beside that of other streams.
class Stream {
 public:
  enum class Priority { low, high };  // high: its blocks go first where both have work
  explicit Stream(Priority priority = Priority::low);
  cudaStream_t get() const { return stream_.get(); }
  void record(const Event& event) const;
  // What is put into this stream from now on waits for the event; the caller does not.
  void wait_for(const Event& event) const;
  void synchronize() const;

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  std::unique_ptr<CUstream_st, Destroy> stream_;
};

struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};
struct FreePinned {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};
// Bytes of the calling thread's device that are in use, whoever uses them.
std::size_t used_memory();
// Zeroed; aligned to 256 bytes.
std::unique_ptr<std::byte, FreeDevice> allocate_device(std::size_t bytes);
// Host memory that copies reach at full speed and asynchronously.
std::unique_ptr<std::byte, FreePinned> allocate_pinned(std::size_t bytes);

// `count` zeros in device memory. Only device code may touch them.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count)
      : memory_(allocate_device(count * sizeof(T))), count_(count) {}
  std::span<T> span() const { return {reinterpret_cast<T*>(memory_.get()), count_}; }

 private:
  std::unique_ptr<std::byte, FreeDevice> memory_;
  std::size_t count_;
};

template <typename T>
class PinnedArray {
 public:
  explicit PinnedArray(std::size_t count)
      : memory_(allocate_pinned(count * sizeof(T))), count_(count) {}
  std::span<T> span() const { return {reinterpret_cast<T*>(memory_.get()), count_}; }

 private:
  std::unique_ptr<std::byte, FreePinned> memory_;
  std::size_t count_;
};

// In stream order, between any two memories. Pinned memory must stay as it is until then.
void copy_bytes(const void* from, void* to, std::size_t bytes, const Stream& stream);
template <typename T>
void copy(std::span<const T> from, std::span<T> to, const Stream& stream) {
  assert(from.size() == to.size());
  copy_bytes(from.data(), to.data(), from.size_bytes(), stream);
}

// The way between pageable memory and a GPU: through pinned slots. Uploads are not waited for; a
// download is, and until then other threads' copies by the same way wait too. (The driver has a way
// as well, but may make the host wait for the stream, and copies on one thread.) In the order of
// one stream; on any thread.
class Staging {
 public:
  Staging();
  // `from` may change when it returns.
  void upload(const void* from, void* to, std::size_t bytes, const Stream& stream);
  // It is there when it returns.
  void download(const void* from, void* to, std::size_t bytes, const Stream& stream);

 private:
  static constexpr std::size_t kSlots = 32, kSlotBytes = std::size_t{1} << 20;

  PinnedArray<std::byte> memory_;
  std::array<Event, kSlots> left_;  // the slot can be used again
  std::mutex mutex_;                // guards what follows, and who fills slots
  std::size_t next_ = 0;
};

}  // namespace causeway::intra::cuda
