#include "intra/cuda/device/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <exception>
#include <string>
#include <system_error>

#include <spdlog/spdlog.h>

#include "intra/base/error.h"
#include "intra/cuda/device/collective_nccl.h"
#include "intra/cuda/device/kept_algorithms.h"
#include "intra/cuda/jobs/kernels.h"

namespace causeway::intra::cuda {

namespace {

constexpr int kRecordedInVainMax = 3;

// What every call says once somebody ended the recording.
bool is_of_recording(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& error) {
    return error.code() ==
           std::error_code(cudaErrorStreamCaptureInvalidated, compression::cuda::cuda_category());
  } catch (...) {
    return false;
  }
}

class Reached final : public Point {
 public:
  Reached() { check(cudaGetDevice(&device_), "asking for the current GPU"); }
  const Event& event() const { return event_; }
  // Any thread may wait: CUDA's calls are for the GPU that the thread has chosen.
  void wait() const override {
    check(cudaSetDevice(device_), "choosing a GPU");
    event_.synchronize();
  }
  bool reached() const override { return event_.reached(); }

 private:
  int device_ = 0;
  Event event_;
};

}  // namespace

template <typename Kind>
OnStream<Kind>::~OnStream() {
  cudaStreamSynchronize(stream_.get());
}

template <typename Kind>
std::shared_ptr<const Point> OnStream<Kind>::point() {
  auto reached = std::make_shared<Reached>();
  stream_.record(reached->event());
  return reached;
}

template <typename Kind>
void OnStream<Kind>::after(const Point& point) {
  stream_.wait_for(dynamic_cast<const Reached&>(point).event());
}

template <typename Kind>
void OnStream<Kind>::upload(const void* from, void* to, std::size_t bytes) {
  staging_.upload(from, to, bytes, stream_);
}

template <typename Kind>
void OnStream<Kind>::download(const void* from, void* to, std::size_t bytes) {
  staging_.download(from, to, bytes, stream_);
}

template <typename Kind>
void OnStream<Kind>::clear(void* values, std::size_t bytes) {
  check(cudaMemsetAsync(values, 0, bytes, stream_.get()), "clearing GPU memory");
}

template <typename Kind>
void OnStream<Kind>::run(const OuterJob& job) {
  launch(job, stream_.get());
}

template class OnStream<Queue>;
template class OnStream<Backend>;

CudaBackend::CudaBackend(int index, const CudaOptions& options)
    : CurrentDevice(index),
      OnStream(Stream::Priority::low),
      options_(options),
      products_(device_name, options.kept_algorithms) {
  if (options.fused_attention) attention_ = make_fused_attention();
}

CudaBackend::~CudaBackend() {
  cudaStreamSynchronize(stream().get());  // before the memory goes
}

std::unique_ptr<Collective> CudaBackend::group(Collective& hosts,
                                               std::chrono::milliseconds deadline) {
  return make_nccl_collective(hosts, deadline);
}

std::unique_ptr<Queue> CudaBackend::beside() {
  // Little work, which the exchange waits for.
  return std::make_unique<OnStream<Queue>>(Stream::Priority::high);
}

std::byte* CudaBackend::allocate(std::size_t bytes) {
  memory_.push_back(allocate_device(bytes));
  memory_peak_bytes_ = std::max<std::uint64_t>(memory_peak_bytes_, used_memory());
  return memory_.back().get();
}

void CudaBackend::release(std::byte* memory) {
  std::erase_if(memory_, [memory](const auto& one) { return one.get() == memory; });
}

void CudaBackend::run(const Job& job) {
  launch(job, stream().get());
}

void CudaBackend::multiply(const Product& product) {
  if (!products_.run(product, stream().get())) multiply_in_steps(product);
}

template <typename T>
void run_gelu(Backend& backend, const Product& product) {
  auto* before = static_cast<Pack<T>*>(product.before_gelu);
  auto* c = static_cast<Pack<T>*>(product.c);
  const std::int64_t packs = product.m * product.n / kPack;
  if (product.epilogue == Product::Epilogue::bias_gelu) {
    backend.run(Gelu<T>{packs, before, c});
  } else {
    backend.run(GeluGradient<T>{packs, before, c, c});
  }
}

// What cuBLASLt has no kernel for: several products one by one, an epilogue as a job of its own.
void CudaBackend::multiply_in_steps(const Product& product) {
  using enum Product::Epilogue;
  if (product.count > 1) {
    for (std::int64_t i = 0; i < product.count; ++i) multiply(product_at(product, i));
    return;
  }
  Product plain = product;
  plain.before_gelu = nullptr;
  if (product.epilogue == bias_gelu) {
    plain.epilogue = bias;
    plain.c = product.before_gelu;
  } else if (product.epilogue == gelu_gradient) {
    plain.epilogue = none;
  } else {
    throw std::system_error(std::make_error_code(std::errc::not_supported),
                            "cuBLASLt has no kernel for a product of " + std::to_string(product.m) +
                                " x " + std::to_string(product.n) + " x " +
                                std::to_string(product.k) +
                                "; make model.width, model.hidden and "
                                "the head size multiples of 64");
  }
  assert(product.c_stride == product.n);
  multiply(plain);
  if (product.element == Element::fp32) {
    run_gelu<float>(*this, product);
  } else {
    run_gelu<Bfloat16>(*this, product);
  }
}

void CudaBackend::attend(const AttentionArrays<float>& arrays) {
  attend_by_jobs(*this, arrays);
}

void CudaBackend::attend(const AttentionArrays<Bfloat16>& arrays) {
  if (attention_ && attention_->run(arrays, stream().get())) {
    ++fused_attentions_;
    return;
  }
  attend_by_jobs(*this, arrays);
}

// The first time is done plainly: cuBLASLt and cuDNN choose their kernels then. The second is
// recorded.
void CudaBackend::repeat(std::uint64_t name, const std::function<void()>& work) {
  const auto [found, is_new] = repeated_.try_emplace(name);
  Repeated& repeated = found->second;
  if (is_new || !options_.graphs || repeated.in_vain == kRecordedInVainMax) return work();
  if (!repeated.recording) repeated.recording = record(work);
  if (!repeated.recording) {
    if (++repeated.in_vain == kRecordedInVainMax)
      spdlog::warn(
          "steps are not recorded any more, which makes them slower: other threads ended "
          "{} recordings one after the other",
          kRecordedInVainMax);
    return work();
  }
  check(cudaGraphLaunch(repeated.recording.get(), stream().get()), "replaying a recorded step");
}

// Null if another thread waited for the whole device meanwhile, as cudaFree() may: that ends every
// recording. The next time it is recorded anew.
CudaBackend::Recording CudaBackend::record(const std::function<void()>& work) {
  check(cudaStreamBeginCapture(stream().get(), cudaStreamCaptureModeThreadLocal),
        "recording a step");
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream().get(), &graph);
  if (ended == cudaErrorStreamCaptureInvalidated && (!failure || is_of_recording(failure))) {
    cudaGetLastError();  // or the next check would find it
    return nullptr;
  }
  if (failure) {
    if (graph != nullptr) cudaGraphDestroy(graph);
    std::rethrow_exception(failure);
  }
  check(ended, "recording a step");
  cudaGraphExec_t made = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "recording a step");
  return Recording(made);
}

std::string pci_address(std::uint32_t rank) {
  int devices = 0;
  std::array<char, 16> address{};
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return {};
  const int device = static_cast<int>(rank) % devices;
  if (cudaDeviceGetPCIBusId(address.data(), address.size(), device) != cudaSuccess) return {};
  std::string text = address.data();  // the kernel's own spelling has small letters
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

std::unique_ptr<Backend> make_cuda_backend(std::uint32_t rank, bool times_products) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    throw std::system_error(
        Errc::no_device,
        std::string("regions.device is cuda, but no GPU answers (") + cudaGetErrorString(error) +
            "): nvidia-smi shows which GPU and driver there are; without one, set regions.device "
            "to cpu");
  }
  CudaOptions options;
  if (times_products) options.kept_algorithms = KeptAlgorithms::default_file();
  return std::make_unique<CudaBackend>(static_cast<int>(rank) % devices, options);
}

}  // namespace causeway::intra::cuda
