// The Backend on one GPU: kernels, cuBLASLt, and cuDNN's attention where it was found at configure
// time and can run the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "intra/cuda/device/device.h"
#include "intra/cuda/device/matrix_products.h"
#include "intra/cuda/jobs/backend.h"
#include "intra/cuda/jobs/jobs.h"

namespace causeway::intra::cuda {

// Attention by one library kernel each way, where there is one.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  // As Backend::attend(). False, and nothing done, if there is no deterministic kernel for it.
  virtual bool run(const AttentionArrays<Bfloat16>& arrays, cudaStream_t stream) = 0;
};

// cuDNN's (cudnn_attention.cc); null, with a word in the log, if the build found no headers of its
// frontend or it cannot be opened here.
std::unique_ptr<FusedAttention> make_fused_attention();

struct CudaOptions {
  bool graphs = true;           // record repeated work, and replay it
  bool fused_attention = true;  // cuDNN's, where it has a kernel
  // Products are timed, and the fastest algorithms kept in this file (matrix_products.h).
  std::optional<std::filesystem::path> kept_algorithms = {};
};

// A GPU, which becomes the calling thread's.
struct CurrentDevice {
  explicit CurrentDevice(int index) : device_name(use_device(index)) {}
  std::string device_name;
};

// A queue that is a stream.
template <typename Kind>
class OnStream : public Kind {
 public:
  explicit OnStream(Stream::Priority priority) : stream_(priority) {}
  ~OnStream() override;  // waits: nothing under way may outlive what it uses
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

  const Stream& stream() const { return stream_; }

  std::shared_ptr<const Point> point() override;
  void after(const Point& point) override;
  void upload(const void* from, void* to, std::size_t bytes) override;
  void download(const void* from, void* to, std::size_t bytes) override;
  void clear(void* values, std::size_t bytes) override;
  void run(const OuterJob& job) override;

 private:
  Stream stream_;
  Staging staging_;
};

// For the thread that made it.
class CudaBackend final : private CurrentDevice, public OnStream<Backend> {
 public:
  explicit CudaBackend(int index = 0, const CudaOptions& options = {});
  ~CudaBackend() override;

  std::string device() const override { return device_name; }
  std::unique_ptr<Collective> group(Collective& hosts, std::chrono::milliseconds deadline) override;
  std::unique_ptr<Queue> beside() override;
  std::byte* allocate(std::size_t bytes) override;
  std::uint64_t memory_peak_bytes() const override { return memory_peak_bytes_; }
  // How often cuDNN did what attend() was asked for.
  std::uint64_t fused_attentions() const { return fused_attentions_; }
  void release(std::byte* memory) override;
  using OnStream::run;
  void run(const Job& job) override;
  void multiply(const Product& product) override;
  void attend(const AttentionArrays<float>& arrays) override;
  void attend(const AttentionArrays<Bfloat16>& arrays) override;
  void repeat(std::uint64_t name, const std::function<void()>& work) override;

 private:
  struct DestroyGraph {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  using Recording = std::unique_ptr<CUgraphExec_st, DestroyGraph>;
  struct Repeated {
    Recording recording;  // null: there is none yet
    int in_vain = 0;
  };

  void multiply_in_steps(const Product& product);
  Recording record(const std::function<void()>& work);

  CudaOptions options_;
  MatrixProducts products_;
  std::unique_ptr<FusedAttention> attention_;  // null: by jobs
  std::vector<std::unique_ptr<std::byte, FreeDevice>> memory_;
  std::uint64_t memory_peak_bytes_ = 0;
  std::uint64_t fused_attentions_ = 0;
  std::map<std::uint64_t, Repeated> repeated_;
};

}  // namespace causeway::intra::cuda
