// Attention by cuDNN, whose graphs are built once per shape. cuDNN is opened when it is used, as
// all of CUDA's libraries (shared_library.h): the frontend has its own way to do so.
#include "intra/cuda/device/cudnn_attention.h"

#include <dlfcn.h>
#include <spdlog/spdlog.h>

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "intra/cuda/device/cuda_backend.h"
#include "intra/cuda/device/device.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // declared by the frontend, for its user to define
}

namespace causeway::intra::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : std::int64_t { kQ = 1, kK, kV, kO, kStats, kDO, kDQ, kDK, kDV };

// (batch, heads, length, head_size) in rows of `row` elements.
class Shape {
 public:
  Shape(const AttentionShape& shape, std::int64_t heads, std::int64_t row)
      : dimensions_{shape.batch, heads, shape.length, shape.head_size},
        strides_{shape.length * row, shape.head_size, row, 1} {}

  Tensor input(fe::graph::Graph& graph, const char* name, Uid uid) const {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name(name)
                            .set_uid(uid)
                            .set_dim(dimensions_)
                            .set_stride(strides_));
  }
  void output(const Tensor& tensor, Uid uid) const {
    tensor->set_output(true).set_uid(uid).set_dim(dimensions_).set_stride(strides_);
  }

 private:
  std::vector<std::int64_t> dimensions_, strides_;
};

struct Shapes {
  explicit Shapes(const AttentionShape& s)
      : queries(s, s.heads, s.qkv_width()),
        keys(s, s.kv_heads, s.qkv_width()),
        out(s, s.heads, s.width()),
        stats_dimensions{s.batch, s.heads, s.length, 1},
        stats_strides{s.heads * s.length, s.length, 1, 1} {}
  Shape queries, keys, out;
  std::vector<std::int64_t> stats_dimensions, stats_strides;
};

void describe_forward(const AttentionArrays<Bfloat16>& arrays, fe::graph::Graph& graph) {
  const Shapes shapes(arrays.shape);
  const auto [out, stats] =
      graph.sdpa(shapes.queries.input(graph, "q", kQ), shapes.keys.input(graph, "k", kK),
                 shapes.keys.input(graph, "v", kV),
                 fe::graph::SDPA_attributes()
                     .set_name("attention")
                     .set_generate_stats(true)
                     .set_causal_mask(true)
                     .set_attn_scale(arrays.scale));
  shapes.out.output(out, kO);
  stats->set_output(true)
      .set_uid(kStats)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim(shapes.stats_dimensions)
      .set_stride(shapes.stats_strides);
}

void describe_backward(const AttentionArrays<Bfloat16>& arrays, fe::graph::Graph& graph) {
  const Shapes shapes(arrays.shape);
  const Tensor stats = graph.tensor(fe::graph::Tensor_attributes()
                                        .set_name("stats")
                                        .set_uid(kStats)
                                        .set_data_type(fe::DataType_t::FLOAT)
                                        .set_dim(shapes.stats_dimensions)
                                        .set_stride(shapes.stats_strides));
  const auto [dq, dk, dv] =
      graph.sdpa_backward(shapes.queries.input(graph, "q", kQ), shapes.keys.input(graph, "k", kK),
                          shapes.keys.input(graph, "v", kV), shapes.out.input(graph, "o", kO),
                          shapes.out.input(graph, "do", kDO), stats,
                          fe::graph::SDPA_backward_attributes()
                              .set_name("attention_backward")
                              .set_causal_mask(true)
                              .set_deterministic_algorithm(true)
                              .set_attn_scale(arrays.scale));
  shapes.queries.output(dq, kDQ);
  shapes.keys.output(dk, kDK);
  shapes.keys.output(dv, kDV);
}

}  // namespace

std::int64_t sequences_at_once(const AttentionArrays<Bfloat16>& arrays) {
  AttentionShape some = arrays.shape;
  if (arrays.d_out == nullptr) return some.batch;
  while (some.batch > 1 && (arrays.shape.batch % some.batch != 0 ||
                            backward_workspace_bytes(some) > kWorkspaceBytesMax)) {
    --some.batch;
  }
  return some.batch;
}

AttentionArrays<Bfloat16> sequences_of(const AttentionArrays<Bfloat16>& arrays, std::int64_t first,
                                       std::int64_t count) {
  AttentionArrays<Bfloat16> some = arrays;
  some.shape.batch = count;
  const std::int64_t tokens = first * arrays.shape.length;
  some.qkv += tokens * arrays.shape.qkv_width();
  some.out += tokens * arrays.shape.width();
  some.log_sum_exp += tokens * arrays.shape.heads;
  if (arrays.d_out != nullptr) {
    some.d_out += tokens * arrays.shape.width();
    some.d_qkv += tokens * arrays.shape.qkv_width();
  }
  return some;
}

fe::graph::Graph attention_graph(const AttentionArrays<Bfloat16>& arrays) {
  fe::graph::Graph graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (arrays.d_out == nullptr) {
    describe_forward(arrays, graph);
  } else {
    describe_backward(arrays, graph);
  }
  return graph;
}

std::unordered_map<std::int64_t, void*> pointers_of(const AttentionArrays<Bfloat16>& arrays) {
  const auto at = [](const Bfloat16* array, std::int64_t element) {
    return const_cast<Bfloat16*>(array + element);
  };
  const std::int64_t key = arrays.key(0, 0), value = arrays.value(0, 0);
  std::unordered_map<std::int64_t, void*> pointers{{kQ, at(arrays.qkv, 0)},
                                                   {kK, at(arrays.qkv, key)},
                                                   {kV, at(arrays.qkv, value)},
                                                   {kO, arrays.out},
                                                   {kStats, arrays.log_sum_exp}};
  if (arrays.d_out != nullptr) {
    pointers.insert({{kDO, at(arrays.d_out, 0)},
                     {kDQ, arrays.d_qkv},
                     {kDK, arrays.d_qkv + key},
                     {kDV, arrays.d_qkv + value}});
  }
  return pointers;
}

namespace {

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
      if (!run_some(sequences_of(arrays, first, at_once), stream)) return false;
    }
    return true;
  }

 private:
  using Key =
      std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;

  bool run_some(const AttentionArrays<Bfloat16>& arrays, cudaStream_t stream) {
    const AttentionShape& s = arrays.shape;
    const Key key{s.batch, s.length, s.heads, s.kv_heads, s.head_size, arrays.d_out != nullptr};
    auto found = plans_.find(key);
    if (found == plans_.end()) found = plans_.emplace(key, build(arrays)).first;
    std::unique_ptr<Plan>& plan = found->second;
    if (!plan) return false;
    const std::string failure = execute(*plan, arrays);
    if (failure.empty()) return true;
    check_recording(stream);
    warn_of(failure);
    plan.reset();  // plain kernels from now on
    return false;
  }

  // What failed; empty: nothing did.
  std::string execute(Plan& plan, const AttentionArrays<Bfloat16>& arrays) {
    auto pointers = pointers_of(arrays);
    try {
      fe::error_t error = plan.graph.execute(handle_, pointers, plan.workspace->span().data());
      return error.is_good() ? std::string() : "executing it: " + error.get_message();
    } catch (const std::exception& error) {  // of the frontend
      return error.what();
    }
  }

  // Throws if another thread ended the recording of this step (CudaBackend::record): nothing works
  // in it any more, and the kernel is not to blame.
  static void check_recording(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &status), "recording attention");
    if (status == cudaStreamCaptureStatusInvalidated)
      check(cudaErrorStreamCaptureInvalidated, "recording attention");
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
