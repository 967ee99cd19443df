#include "intra/cuda/device/device.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

namespace causeway::intra::cuda {
namespace {

// On several threads: one is slower than the bus to a GPU.
void copy_on_host(const std::byte* from, std::byte* to, std::size_t bytes) {
  constexpr std::size_t kPart = std::size_t{1} << 18;
  const std::size_t parts = (bytes + kPart - 1) / kPart;
#pragma omp parallel for num_threads(std::min(4, omp_get_max_threads())) if (parts > 1)
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = part * kPart;
    std::memcpy(to + begin, from + begin, std::min(kPart, bytes - begin));
  }
}

}  // namespace

std::string use_device(int index) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "looking for GPUs");
  if (index < 0 || index >= count) {
    const std::string what =
        "GPU " + std::to_string(index) + " of " + std::to_string(count) + ", counted from 0";
    check(cudaErrorInvalidDevice, what.c_str());
  }
  check(cudaSetDevice(index), "choosing a GPU");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "asking a GPU for its name");
  return properties.name;
}

Event::Event(bool timed) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
        "making an event");
  event_.reset(event);
}

bool Event::reached() const {
  const cudaError_t error = cudaEventQuery(get());
  if (error == cudaErrorNotReady) return false;
  check(error, "asking whether the GPU is done");
  return true;
}

void Event::synchronize() const {
  check(cudaEventSynchronize(get()), "waiting for the GPU");
}

float Event::milliseconds_since(const Event& start) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.get(), get()), "timing the GPU");
  return milliseconds;
}

Stream::Stream(Priority priority) {
  int least = 0, greatest = 0;  // greater priorities are smaller numbers
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "making a stream");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == Priority::high ? greatest : least),
        "making a stream");
  stream_.reset(stream);
}

void Stream::record(const Event& event) const {
  check(cudaEventRecord(event.get(), get()), "recording an event");
}

void Stream::wait_for(const Event& event) const {
  check(cudaStreamWaitEvent(get(), event.get(), 0), "making a stream wait");
}

void Stream::synchronize() const {
  check(cudaStreamSynchronize(get()), "waiting for the GPU");
}

std::size_t used_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking how much GPU memory is free");
  return total - free;
}

std::unique_ptr<std::byte, FreeDevice> allocate_device(std::size_t bytes) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  const std::string what = "allocating " + std::to_string(bytes >> 20) + " MiB of GPU memory";
  check(cudaMalloc(&memory, bytes), what.c_str());
  std::unique_ptr<std::byte, FreeDevice> owner(static_cast<std::byte*>(memory));
  // All streams find zeros. Not the whole device is waited for: another stream may be recording.
  const Stream stream;
  check(cudaMemsetAsync(memory, 0, bytes, stream.get()), "clearing GPU memory");
  stream.synchronize();
  return owner;
}

std::unique_ptr<std::byte, FreePinned> allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "allocating pinned memory");
  return std::unique_ptr<std::byte, FreePinned>(static_cast<std::byte*>(memory));
}

void copy_bytes(const void* from, void* to, std::size_t bytes, const Stream& stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.get()),
        "copying to or from the GPU");
}

Staging::Staging() : memory_(kSlots * kSlotBytes) {}

void Staging::upload(const void* from, void* to, std::size_t bytes, const Stream& stream) {
  const std::lock_guard lock(mutex_);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(kSlotBytes, bytes - done);
    std::byte* const slot = &memory_.span()[next_ * kSlotBytes];
    left_[next_].synchronize();
    copy_on_host(static_cast<const std::byte*>(from) + done, slot, piece);
    copy_bytes(slot, static_cast<std::byte*>(to) + done, piece, stream);
    stream.record(left_[next_]);
    next_ = (next_ + 1) % kSlots;
    done += piece;
  }
}

void Staging::download(const void* from, void* to, std::size_t bytes, const Stream& stream) {
  const std::lock_guard lock(mutex_);
  const std::size_t pieces = (bytes + kSlotBytes - 1) / kSlotBytes;
  const auto slot_of = [&](std::size_t piece) { return (next_ + piece) % kSlots; };
  const auto size_of = [&](std::size_t piece) {
    return std::min(kSlotBytes, bytes - piece * kSlotBytes);
  };
  std::size_t asked = 0;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    for (; asked < std::min(pieces, piece + kSlots); ++asked) {
      const std::size_t slot = slot_of(asked);
      copy_bytes(static_cast<const std::byte*>(from) + asked * kSlotBytes,
                 &memory_.span()[slot * kSlotBytes], size_of(asked), stream);
      stream.record(left_[slot]);
    }
    const std::size_t slot = slot_of(piece);
    left_[slot].synchronize();
    copy_on_host(&memory_.span()[slot * kSlotBytes],
                 static_cast<std::byte*>(to) + piece * kSlotBytes, size_of(piece));
  }
  next_ = (next_ + pieces) % kSlots;
}

}  // namespace causeway::intra::cuda
