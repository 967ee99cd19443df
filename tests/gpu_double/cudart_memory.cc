// Memory of the double: each allocation in pages of its own, with one that nobody may touch on each
// side.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/gpu_double/cudart.h"

namespace causeway::gpu_double {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kPoison = 0xFF;  // NaN, as fp32 and as bf16
constexpr unsigned char kSlack = 0xA5;
constexpr std::size_t kDeviceBytes = std::size_t{8} << 30;

struct Allocation {
  std::byte* pages = nullptr;  // without the two that nobody may touch
  std::size_t page_bytes = 0;
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

struct Memory {
  std::recursive_mutex mutex;
  std::map<const std::byte*, Allocation> device;  // by begin
  std::map<const std::byte*, std::size_t> pinned;
  std::size_t used = 0;
  int unlocked = 0;
};
Memory& memory() {
  static Memory* const all = new Memory;  // outlives whoever frees at the program's end
  return *all;
}

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

void protect(const Allocation& allocation, int rights) {
  if (mprotect(allocation.pages, allocation.page_bytes, rights) != 0) refuse("mprotect failed");
}

Allocation map_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t rounded = round_up(bytes, kAlignment), all = round_up(rounded, page);
  void* const mapped = mmap(nullptr, all + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) refuse("no memory for the double");
  Allocation made{static_cast<std::byte*>(mapped) + page, all, nullptr, bytes};
  made.begin = made.pages + (all - rounded);
  protect(made, PROT_READ | PROT_WRITE);
  madvise(made.pages, all, MADV_HUGEPAGE);  // what may touch it changes at every piece of work
  std::memset(made.pages, kSlack, all);
  std::memset(made.begin, kPoison, bytes);
  return made;
}

void check_slack(const Allocation& allocation) {
  const auto is_slack = [](const std::byte* byte) { return *byte == std::byte{kSlack}; };
  const std::byte* const end = allocation.pages + allocation.page_bytes;
  for (const std::byte* byte = allocation.pages; byte < end; ++byte) {
    const bool inside = byte >= allocation.begin && byte < allocation.begin + allocation.bytes;
    if (!inside && !is_slack(byte)) refuse("work wrote beside its memory");
  }
}

template <typename Map>
auto holder(Map& map, const std::byte* address) {
  auto after = map.upper_bound(address);
  return after == map.begin() ? map.end() : std::prev(after);
}

}  // namespace

void refuse(const char* what) {
  std::fprintf(stderr, "GPU double: %s\n", what);
  std::abort();
}

Where where(const void* address, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  const auto* at = static_cast<const std::byte*>(address);
  const auto device = holder(memory().device, at);
  if (device != memory().device.end() && at < device->first + device->second.bytes) {
    if (at + bytes > device->first + device->second.bytes) refuse("a copy goes beyond its memory");
    return Where::device;
  }
  const auto pinned = holder(memory().pinned, at);
  const bool inside = pinned != memory().pinned.end() && at < pinned->first + pinned->second;
  return inside ? Where::pinned : Where::pageable;
}

Unlocked::Unlocked() {
  memory().mutex.lock();
  if (memory().unlocked++ > 0) return;
  for (const auto& [begin, allocation] : memory().device)
    protect(allocation, PROT_READ | PROT_WRITE);
}

Unlocked::~Unlocked() {
  if (--memory().unlocked == 0) {
    for (const auto& [begin, allocation] : memory().device) protect(allocation, PROT_NONE);
  }
  memory().mutex.unlock();
}

}  // namespace causeway::gpu_double

using causeway::gpu_double::memory;
using causeway::gpu_double::refuse;
using causeway::gpu_double::spoils_capture;

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  if (spoils_capture()) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(memory().mutex);
  if (memory().used + bytes > causeway::gpu_double::kDeviceBytes) return cudaErrorMemoryAllocation;
  const auto made = causeway::gpu_double::map_pages(bytes);
  memory().device[made.begin] = made;
  memory().used += bytes;
  if (memory().unlocked == 0) causeway::gpu_double::protect(made, PROT_NONE);
  *address = made.begin;
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  if (address == nullptr) return cudaSuccess;
  if (spoils_capture()) return cudaErrorStreamCaptureUnsupported;
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess)
    return error;  // as the real one does
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().device.find(static_cast<std::byte*>(address));
  if (found == memory().device.end())
    refuse("what is freed was not allocated, or was freed already");
  const auto allocation = found->second;
  causeway::gpu_double::protect(allocation, PROT_READ);
  causeway::gpu_double::check_slack(allocation);
  munmap(allocation.pages, allocation.page_bytes);
  memory().used -= allocation.bytes;
  memory().device.erase(found);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  if (spoils_capture()) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(memory().mutex);
  *address = std::malloc(bytes);
  if (*address == nullptr) return cudaErrorMemoryAllocation;
  memory().pinned[static_cast<std::byte*>(*address)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* address) {
  if (spoils_capture()) return cudaErrorStreamCaptureUnsupported;
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) return error;
  const std::lock_guard lock(memory().mutex);
  memory().pinned.erase(static_cast<std::byte*>(address));
  std::free(address);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(memory().mutex);
  *total = causeway::gpu_double::kDeviceBytes;
  *free = *total - memory().used;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  using causeway::gpu_double::Where;
  const Where place = causeway::gpu_double::where(address, 0);
  *attributes = {};
  attributes->type = place == Where::device   ? cudaMemoryTypeDevice
                     : place == Where::pinned ? cudaMemoryTypeHost
                                              : cudaMemoryTypeUnregistered;
  attributes->device = causeway::gpu_double::current_device();
  return cudaSuccess;
}
}
