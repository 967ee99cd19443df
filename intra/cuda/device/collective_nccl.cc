#include "intra/cuda/device/collective_nccl.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "intra/base/error.h"
#include "intra/collective/collective.h"
#include "intra/cuda/device/device.h"
#include "intra/cuda/device/nccl.h"

namespace causeway::intra::cuda {

Nccl::Nccl() {
  library.find("ncclGetUniqueId", get_unique_id);
  library.find("ncclCommInitRankConfig", init);
  library.find("ncclCommGetAsyncError", async_error);
  library.find("ncclCommFinalize", finalize);
  library.find("ncclCommDestroy", destroy);
  library.find("ncclCommAbort", abort);
  library.find("ncclGetErrorString", error_string);
  library.find("ncclGetLastError", last_error);
  library.find("ncclGroupStart", group_start);
  library.find("ncclGroupEnd", group_end);
  library.find("ncclAllReduce", all_reduce);
  library.find("ncclReduce", reduce);
  library.find("ncclBroadcast", broadcast);
  library.find("ncclSend", send);
  library.find("ncclRecv", receive);
}

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kLeavingMost{2000};

bool is_accepted(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

bool on_device(const void* values) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, values), "asking where values lie");
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

class Communicator final : public ForwardingCollective {
 public:
  Communicator(const Nccl& nccl, Collective& hosts, Milliseconds deadline)
      : ForwardingCollective(hosts),
        deadline_(deadline),
        nccl_(nccl),
        stream_(Stream::Priority::high) {
    check(cudaGetDevice(&device_), "asking for the current GPU");
    form();
  }
  ~Communicator() override { leave(); }

  void all_reduce_sum(std::span<float> values) override;
  void reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts) override;
  void all_gather_parts(std::span<float> values, std::span<const std::size_t> counts) override;
  void exchange_parts(std::span<const float> values, std::span<const std::size_t> counts,
                      std::span<float> received) override;

 private:
  void form();
  // Puts the operation into the stream and waits for its end.
  void run(const char* name, const std::function<ncclResult_t()>& operation);
  // One call for every rank: call(rank), as one operation.
  void run_each(const char* name, const std::function<ncclResult_t(std::size_t)>& call);
  // The same for every rank's part, unless it is empty: call(part, root).
  void run_parts(const char* name, std::span<float> values, std::span<const std::size_t> counts,
                 const std::function<ncclResult_t(std::span<float>, int)>& call);
  void wait(const char* name, const std::function<bool()>& done) { wait(name, deadline_, done); }
  void wait(const char* name, Milliseconds deadline, const std::function<bool()>& done);
  ncclResult_t state() const;
  void leave();
  void abort();
  [[noreturn]] void fail(const char* name, const std::string& why);

  Milliseconds deadline_;
  const Nccl& nccl_;
  int device_ = 0;
  Stream stream_;
  Event end_;
  ncclComm_t communicator_ = nullptr;  // null: aborted
};

void Communicator::form() {
  ncclUniqueId id{};
  const ncclResult_t made = rank() == 0 ? nccl_.get_unique_id(&id) : ncclSuccess;
  if (made != ncclSuccess) fail("forming the group", nccl_.error_string(made));
  group().broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t begun =
      nccl_.init(&communicator_, static_cast<int>(size()), id, static_cast<int>(rank()), &config);
  if (!is_accepted(begun)) fail("forming the group", nccl_.error_string(begun));
  wait("forming the group", [] { return true; });
}

ncclResult_t Communicator::state() const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl_.async_error(communicator_, &state);
  return asked == ncclSuccess ? state : asked;
}

// Until NCCL has nothing in progress and `done`, which is asked only then.
void Communicator::wait(const char* name, Milliseconds deadline,
                        const std::function<bool()>& done) {
  const Clock::time_point end = Clock::now() + deadline;
  for (;;) {
    const ncclResult_t now = state();
    if (!is_accepted(now)) {
      fail(name, std::string("a rank died or hung: ") + nccl_.error_string(now) + ", " +
                     nccl_.last_error(communicator_));
    }
    if (now == ncclSuccess && done()) return;
    if (Clock::now() > end) fail(name, "a rank died or hung: nothing came from it");
    std::this_thread::yield();
  }
}

void Communicator::run(const char* name, const std::function<ncclResult_t()>& operation) {
  if (communicator_ == nullptr) fail(name, "the group broke earlier; form a new one");
  check(cudaSetDevice(device_), "choosing a GPU");  // the thread may be another
  const ncclResult_t begun = operation();
  if (!is_accepted(begun)) fail(name, nccl_.error_string(begun));
  // Until it is no longer in progress it may not be in the stream, and nor may the event be.
  wait(name, [] { return true; });
  stream_.record(end_);
  wait(name, [this] { return end_.reached(); });
}

void Communicator::run_each(const char* name,
                            const std::function<ncclResult_t(std::size_t)>& call) {
  run(name, [&] {
    nccl_.group_start();
    ncclResult_t result = ncclSuccess;
    for (std::size_t rank = 0; rank < size() && is_accepted(result); ++rank) result = call(rank);
    const ncclResult_t ended = nccl_.group_end();
    return is_accepted(result) ? ended : result;
  });
}

void Communicator::run_parts(const char* name, std::span<float> values,
                             std::span<const std::size_t> counts,
                             const std::function<ncclResult_t(std::span<float>, int)>& call) {
  assert(counts.size() == size());
  run_each(name, [&](std::size_t part) {
    if (counts[part] == 0) return ncclSuccess;
    return call(values.subspan(begin_of_part(counts, part), counts[part]), static_cast<int>(part));
  });
}

void Communicator::all_reduce_sum(std::span<float> values) {
  if (values.empty()) return;
  if (!on_device(values.data())) return group().all_reduce_sum(values);
  run("all-reduce", [&] {
    return nccl_.all_reduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                            communicator_, stream_.get());
  });
}

void Communicator::reduce_scatter_sum(std::span<float> values,
                                      std::span<const std::size_t> counts) {
  if (values.empty()) return;
  if (!on_device(values.data())) return group().reduce_scatter_sum(values, counts);
  run_parts("reduce-scatter", values, counts, [&](std::span<float> part, int root) {
    return nccl_.reduce(part.data(), part.data(), part.size(), ncclFloat, ncclSum, root,
                        communicator_, stream_.get());
  });
}

void Communicator::all_gather_parts(std::span<float> values, std::span<const std::size_t> counts) {
  if (values.empty()) return;
  if (!on_device(values.data())) return group().all_gather_parts(values, counts);
  run_parts("all-gather", values, counts, [&](std::span<float> part, int root) {
    return nccl_.broadcast(part.data(), part.data(), part.size(), ncclFloat, root, communicator_,
                           stream_.get());
  });
}

// To and from every rank, itself included, which NCCL takes for a copy.
void Communicator::exchange_parts(std::span<const float> values,
                                  std::span<const std::size_t> counts, std::span<float> received) {
  assert(counts.size() == size() && received.size() == size() * counts[rank()]);
  if (values.empty()) return;
  if (!on_device(values.data())) return group().exchange_parts(values, counts, received);
  const std::size_t own = counts[rank()];
  run_each("exchange", [&](std::size_t other) {
    const int peer = static_cast<int>(other);
    const float* const part = values.data() + begin_of_part(counts, other);
    const ncclResult_t sent = counts[other] == 0 ? ncclSuccess
                                                 : nccl_.send(part, counts[other], ncclFloat, peer,
                                                              communicator_, stream_.get());
    if (own == 0 || !is_accepted(sent)) return sent;
    return nccl_.receive(received.data() + other * own, own, ncclFloat, peer, communicator_,
                         stream_.get());
  });
}

// A healthy communicator is finalised and destroyed; abort is for a broken one. The others leave at
// the same time, but for one that died since: then nobody waits long for it.
void Communicator::leave() {
  if (communicator_ == nullptr) return;
  try {
    check(cudaSetDevice(device_), "choosing a GPU");
    const ncclResult_t begun = nccl_.finalize(communicator_);
    if (!is_accepted(begun)) fail("leaving the group", nccl_.error_string(begun));
    wait("leaving the group", std::min(deadline_, kLeavingMost), [] { return true; });
    nccl_.destroy(std::exchange(communicator_, nullptr));
  } catch (const std::system_error& error) {
    spdlog::debug("{}", error.what());
    abort();
  }
}

void Communicator::abort() {
  if (communicator_ != nullptr) nccl_.abort(std::exchange(communicator_, nullptr));
}

void Communicator::fail(const char* name, const std::string& why) {
  abort();
  throw std::system_error(Errc::collective, std::string(name) + " on rank " +
                                                std::to_string(rank()) + " of " +
                                                std::to_string(size()) + ", over NCCL, deadline " +
                                                std::to_string(deadline_.count()) + " ms: " + why);
}

// For the life of the program; null if it is not installed.
const Nccl* nccl() {
  static const std::unique_ptr<const Nccl> opened = []() -> std::unique_ptr<const Nccl> {
    try {
      return std::make_unique<Nccl>();
    } catch (const std::system_error& error) {
      spdlog::warn("{}", error.what());
      return nullptr;
    }
  }();
  return opened.get();
}

// Of the current GPU, all over the world.
using GpuId = std::array<std::byte, sizeof(cudaUUID_t)>;

GpuId gpu_id() {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "asking for the current GPU");
  check(cudaGetDeviceProperties(&properties, device), "asking a GPU for its name");
  GpuId id;
  std::memcpy(id.data(), &properties.uuid, id.size());
  return id;
}

// Every rank has NCCL, and a GPU of its own.
bool can_form(Collective& hosts) {
  const GpuId own = gpu_id();
  const std::span<const std::byte> mine(own.data(), nccl() != nullptr ? own.size() : 0);
  std::set<GpuId> different;
  for (const std::vector<std::byte>& id : hosts.all_gather(mine)) {
    GpuId other;
    if (id.size() != other.size()) return false;
    std::ranges::copy(id, other.begin());
    different.insert(other);
  }
  return different.size() == hosts.size();
}

}  // namespace

std::unique_ptr<Collective> make_nccl_collective(Collective& hosts, Milliseconds deadline) {
  if (can_form(hosts)) return std::make_unique<Communicator>(*nccl(), hosts, deadline);
  spdlog::warn(
      "this region's workers share a GPU, or lack NCCL: gradients are summed by way of the host");
  return nullptr;
}

}  // namespace causeway::intra::cuda
