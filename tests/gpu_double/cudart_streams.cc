// Streams, events and graphs of the double. A stream is a list of what was asked for and is not
// done; an event is a place in one.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu_double/cudart.h"

using Work =
    std::function<bool()>;  // false: it waits for another process, and is to be tried again

struct CUgraph_st {
  std::vector<Work> work;
  std::uint64_t launches = 0;
  bool spoilt = false;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};
struct CUstream_st {
  int device = 0;
  std::deque<Work> left;
  std::uint64_t done = 0;
  CUgraph_st* recorded = nullptr;  // while it records

  std::uint64_t asked() const { return done + left.size(); }
};
struct CUevent_st {
  CUstream_st* stream = nullptr;  // null: never recorded
  std::uint64_t place = 0;
  bool in_graph = false;
  bool is_timed = false;
  std::shared_ptr<double> at_ms = {};  // of a timed one
};

namespace causeway::gpu_double {
namespace {

constexpr std::uint64_t kDoneByAsking = 16;
constexpr double kKernelMs = 0.01;

struct Streams {
  std::recursive_mutex mutex;
  std::set<CUstream_st*> all;
  Counts counts;
  double clock_ms = 0;
};
Streams& streams() {
  static Streams* const known = new Streams;
  return *known;
}
thread_local int chosen = 0;
thread_local CUstream_st* recording = nullptr;  // by this thread
thread_local cudaError_t last = cudaSuccess;

// False: it got stuck before that.
bool drain(CUstream_st& stream, std::uint64_t until) {
  if (stream.done >= until) return true;
  const Unlocked unlocked;
  while (stream.done < until) {
    const Work next = stream.left.front();
    if (!next()) return false;
    stream.left.pop_front();
    ++stream.done;
  }
  return true;
}

using Lock = std::unique_lock<std::recursive_mutex>;

void wait_for(Lock& lock, CUstream_st& stream, std::uint64_t until) {
  if (stream.done < until) ++streams().counts.waits;
  while (!drain(stream, until)) {
    lock.unlock();  // for other threads, which the other process may wait for
    std::this_thread::yield();
    lock.lock();
  }
}

cudaError_t put(CUstream_st* stream, Work work) {
  if (stream == nullptr || !streams().all.contains(stream))
    refuse("work for a stream that is not there");
  if (stream->device != chosen) return cudaErrorInvalidResourceHandle;
  if (stream->recorded != nullptr && stream->recorded->spoilt)
    return cudaErrorStreamCaptureInvalidated;
  if (stream->recorded == nullptr) {
    stream->left.push_back(std::move(work));
  } else {
    stream->recorded->work.push_back(std::move(work));
  }
  return cudaSuccess;
}

bool spoil(CUstream_st* stream) {
  if (stream == nullptr || stream->recorded == nullptr) return false;
  stream->recorded->spoilt = true;
  return true;
}

void copy(const void* from, void* to, std::size_t bytes) {
  const bool down = where(from, bytes) == Where::device, up = where(to, bytes) == Where::device;
  if (up && !down) streams().counts.up_bytes += bytes;
  if (down && !up) streams().counts.down_bytes += bytes;
  std::memcpy(to, from, bytes);
}

}  // namespace

Counts counts() {
  const std::lock_guard lock(streams().mutex);
  return streams().counts;
}

void enqueue(cudaStream_t stream, std::function<void()> kernel) {
  const std::lock_guard lock(streams().mutex);
  const cudaError_t error = put(stream, [kernel = std::move(kernel)] {
    ++streams().counts.launches;
    spend(kKernelMs);
    kernel();
    return true;
  });
  if (error != cudaSuccess) last = error;
}

void spend(double milliseconds) {
  const std::lock_guard lock(streams().mutex);
  streams().clock_ms += milliseconds;
}

bool enqueue_until_done(cudaStream_t stream, std::function<bool()> work) {
  const std::lock_guard lock(streams().mutex);
  return put(stream, std::move(work)) == cudaSuccess;
}

bool spoils_capture() {
  return spoil(recording);
}

int devices() {
  const char* const wanted = std::getenv("CAUSEWAY_DOUBLE_GPUS");
  return wanted == nullptr ? 1 : std::atoi(wanted);
}

int current_device() {
  return chosen;
}

}  // namespace causeway::gpu_double

using namespace causeway::gpu_double;
extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  chosen = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = chosen;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "double of a GPU");
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int bytes, int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  std::snprintf(address, static_cast<std::size_t>(bytes), "0000:%02X:00.0", device + 0x1A);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "the GPU double refuses";
}
cudaError_t cudaGetLastError() {
  return std::exchange(last, cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  Lock lock(streams().mutex);
  *stream = new CUstream_st{.device = chosen, .left = {}, .done = 0, .recorded = nullptr};
  streams().all.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock(streams().mutex);
  drain(*stream, stream->asked());  // the real one lets it end, too
  streams().all.erase(stream);      // and is not freed: events may name it
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock(streams().mutex);
  if (spoil(stream) || spoils_capture()) return cudaErrorStreamCaptureUnsupported;
  wait_for(lock, *stream, stream->asked());
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  Lock lock(streams().mutex);
  bool spoilt = false;
  for (CUstream_st* stream : streams().all) spoilt = spoil(stream) || spoilt;
  if (spoilt) return cudaErrorStreamCaptureUnsupported;
  // Those of other GPUs may wait for this thread's part in a sum. Other threads may change the set.
  for (CUstream_st* stream : std::set(streams().all))
    if (stream->device == chosen) wait_for(lock, *stream, stream->asked());
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Lock lock(streams().mutex);
  const bool recorded = stream->recorded != nullptr;
  if (event->in_graph || recorded) {  // of one graph, or none: what Causeway records is one stream
    if (event->in_graph && recorded && event->stream == stream) return cudaSuccess;
    spoil(stream);
    return cudaErrorStreamCaptureIsolation;
  }
  if (event->stream == nullptr) return cudaSuccess;
  return put(stream, [on = event->stream, until = event->place] { return drain(*on, until); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.is_timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Lock lock(streams().mutex);
  if (stream->device != chosen) return cudaErrorInvalidResourceHandle;
  std::shared_ptr<double> at_ms;
  if (event->is_timed) {
    at_ms = std::make_shared<double>();
    put(stream, [at_ms] {
      *at_ms = streams().clock_ms;
      return true;
    });
  }
  *event = {.stream = stream,
            .place = stream->asked(),
            .in_graph = stream->recorded != nullptr,
            .is_timed = event->is_timed,
            .at_ms = at_ms};
  return cudaSuccess;
}
// Who asks again and again lets the stream go on.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(streams().mutex);
  if (event->in_graph) return cudaErrorCapturedEvent;
  if (event->stream == nullptr || event->stream->done >= event->place) return cudaSuccess;
  drain(*event->stream, std::min(event->place, event->stream->done + kDoneByAsking));
  return event->stream->done >= event->place ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(streams().mutex);
  if (event->in_graph || spoils_capture()) return cudaErrorCapturedEvent;
  if (event->stream != nullptr) wait_for(lock, *event->stream, event->place);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  Lock lock(streams().mutex);
  for (const cudaEvent_t event : {start, end}) {
    if (!event->at_ms) return cudaErrorInvalidResourceHandle;
    if (event->stream->done < event->place) return cudaErrorNotReady;
  }
  *milliseconds = static_cast<float>(*end->at_ms - *start->at_ms);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  Lock lock(streams().mutex);
  if (where(from, bytes) == Where::pageable) {  // read at once, as the real one does
    if (spoil(stream)) return cudaErrorStreamCaptureUnsupported;
    const auto* first = static_cast<const std::byte*>(from);
    return put(stream, [kept = std::vector<std::byte>(first, first + bytes), to] {
      copy(kept.data(), to, kept.size());
      return true;
    });
  }
  const cudaError_t error = put(stream, [=] {
    copy(from, to, bytes);
    return true;
  });
  if (error == cudaSuccess && where(to, bytes) == Where::pageable)
    return cudaStreamSynchronize(stream);
  return error;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  Lock lock(streams().mutex);
  return put(stream, [=] {
    if (where(to, bytes) != Where::device) refuse("clearing what is no device memory");
    std::memset(to, value, bytes);
    return true;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  Lock lock(streams().mutex);
  if (recording != nullptr) return cudaErrorIllegalState;
  stream->recorded = new CUgraph_st;
  recording = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  Lock lock(streams().mutex);
  *status = stream->recorded == nullptr ? cudaStreamCaptureStatusNone
            : stream->recorded->spoilt  ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Lock lock(streams().mutex);
  if (recording != stream) return cudaErrorStreamCaptureWrongThread;
  recording = nullptr;
  *graph = std::exchange(stream->recorded, nullptr);
  if (!(*graph)->spoilt) return cudaSuccess;
  delete std::exchange(*graph, nullptr);
  return cudaErrorStreamCaptureInvalidated;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = new CUgraphExec_st{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  Lock lock(streams().mutex);
  ++streams().counts.graphs;
  for (const auto& work : graph->graph.work) {
    if (const cudaError_t error = put(stream, work); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
}
