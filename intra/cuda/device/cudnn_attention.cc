// Attention by cuDNN, whose graphs are built once per shape. cuDNN is opened when it is used, as
// all of CUDA's libraries (shared_library.h): the frontend has its own way to do so.
#include <dlfcn.h>
#include <spdlog/spdlog.h>

#include <map>
#include <optional>
#include <tuple>

#include "intra/cuda/device/attention_graph.h"
#include "intra/cuda/device/device.h"
#include "intra/cuda/device/fused_attention.h"

namespace causeway::intra::cuda {
namespace {

namespace fe = cudnn_frontend;

struct Plan {
  fe::graph::Graph graph;
  std::optional<DeviceArray<std::byte>> workspace;
};

void warn_of(const std::string& why) {
  spdlog::warn("attention runs on plain kernels, several times slower than cuDNN's: {}", why);
}

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention() {
    if (fe::detail::create_handle(&handle_) != CUDNN_STATUS_SUCCESS) {
      throw std::system_error(std::make_error_code(std::errc::not_supported), "starting cuDNN");
    }
  }
  ~CudnnAttention() override { fe::detail::destroy_handle(handle_); }
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  bool run(const AttentionArrays<Bfloat16>& arrays, cudaStream_t stream) override {
    if (arrays.dropout.probability > 0) return false;  // its masks are not ours
    fe::detail::set_stream(handle_, stream);
    const std::int64_t at_once = sequences_at_once(arrays);
    for (std::int64_t first = 0; first < arrays.shape.batch; first += at_once) {
      if (!run_some(sequences_of(arrays, first, at_once))) return false;
    }
    return true;
  }

 private:
  using Key =
      std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;

  bool run_some(const AttentionArrays<Bfloat16>& arrays) {
    const AttentionShape& s = arrays.shape;
    const Key key{s.batch, s.length, s.heads, s.kv_heads, s.head_size, arrays.d_out != nullptr};
    auto found = plans_.find(key);
    if (found == plans_.end()) found = plans_.emplace(key, build(arrays)).first;
    std::unique_ptr<Plan>& plan = found->second;
    if (!plan) return false;
    if (execute(*plan, arrays)) return true;
    plan.reset();  // plain kernels from now on
    return false;
  }

  bool execute(Plan& plan, const AttentionArrays<Bfloat16>& arrays) {
    auto pointers = pointers_of(arrays);
    try {
      fe::error_t error = plan.graph.execute(handle_, pointers, plan.workspace->span().data());
      if (error.is_good()) return true;
      warn_of(error.get_message());
    } catch (const std::exception& error) {  // of the frontend
      warn_of(error.what());
    }
    return false;
  }

  // Null if there is no kernel for it.
  std::unique_ptr<Plan> build(const AttentionArrays<Bfloat16>& arrays) {
    try {
      return describe_and_build(arrays);
    } catch (const std::exception& error) {  // of the frontend, which may look for libraries here
      warn_of(error.what());
      return nullptr;
    }
  }

  std::unique_ptr<Plan> describe_and_build(const AttentionArrays<Bfloat16>& arrays) {
    auto plan = std::make_unique<Plan>();
    plan->graph = attention_graph(arrays);
    fe::error_t error = plan->graph.build(handle_, {fe::HeurMode_t::A});
    if (error.is_bad()) {
      warn_of(error.get_message());
      return nullptr;
    }
    std::int64_t bytes = 0;
    if (plan->graph.get_workspace_size(bytes).is_bad()) return nullptr;
    plan->workspace.emplace(static_cast<std::size_t>(bytes));
    return plan;
  }

  cudnnHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace

std::unique_ptr<FusedAttention> make_fused_attention() {
  const std::string name = "libcudnn.so." + std::to_string(CUDNN_MAJOR);
  if (cudnn_frontend::cudnn_dlhandle == nullptr) {
    cudnn_frontend::cudnn_dlhandle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (cudnn_frontend::cudnn_dlhandle == nullptr) {
    warn_of(dlerror());
    return nullptr;
  }
  try {
    return std::make_unique<CudnnAttention>();
  } catch (const std::exception& error) {  // the frontend's own, if it finds no libcudart
    warn_of(error.what());
    return nullptr;
  }
}

}  // namespace causeway::intra::cuda
