// The real cuDNN, without a GPU: its description of a device is filled in for an H200, its driver
// is the toolkit's stub. It checks every graph and looks for kernels; it could not load one.
#include "intra/cuda/device/cudnn_attention.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace causeway::intra::cuda {
namespace {

namespace fe = cudnn_frontend;

constexpr std::size_t kVersionMin = 90800;  // earlier ones cannot be told what the device is

// As cuDNN itself writes it of an H200.
constexpr std::string_view kH200 =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,)"
    R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,)"
    R"("deviceName":"NVIDIA H200","deviceVer":900,"driverVer":13000,"cudaDeviceId":0,)"
    R"("totalGlobalMem":150754820096})";

// Opened as the program opens it, but the real one. Says what is missing, if anything is.
std::string open_cudnn() {
  setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", CAUSEWAY_CUDART, 1);
  // Under its own name, libcuda.so.1, by which cuDNN asks for it.
  if (dlopen(CAUSEWAY_CUDA_DRIVER, RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
  fe::cudnn_dlhandle = dlopen(CAUSEWAY_CUDNN, RTLD_NOW | RTLD_LOCAL);
  if (fe::cudnn_dlhandle == nullptr) return dlerror();
  const std::size_t version = fe::detail::get_backend_version();
  if (version >= kVersionMin) return "";
  return "cuDNN " + std::to_string(version) + " is older than 9.8";
}

struct Case {
  AttentionShape shape;
  bool backward = false;
};

std::string name_of(const Case& asked) {
  const AttentionShape& s = asked.shape;
  return std::to_string(s.batch) + "x" + std::to_string(s.length) + "x" + std::to_string(s.heads) +
         "over" + std::to_string(s.kv_heads) + "x" + std::to_string(s.head_size) +
         (asked.backward ? "Backward" : "Forward");
}

// Without it a failure shows the bytes of the case, its padding too.
void PrintTo(const Case& asked, std::ostream* out) {
  *out << name_of(asked);
}

std::string test_name(const testing::TestParamInfo<Case>& test) {
  return name_of(test.param);
}

AttentionArrays<Bfloat16> arrays_of(const Case& asked) {
  static const Bfloat16 something{};
  AttentionArrays<Bfloat16> arrays;
  arrays.shape = asked.shape;
  arrays.scale = 0.125f;
  if (asked.backward) arrays.d_out = &something;
  return arrays;
}

// The graph as it is built on a GPU, up to where a kernel would be loaded.
fe::error_t plans_of(const Case& asked, fe::graph::Graph& graph) {
  const auto device = std::make_shared<fe::DeviceProperties>();
  fe::error_t error = device->deserialize({kH200.begin(), kH200.end()});
  if (error.is_bad()) return error;
  graph = attention_graph(arrays_of(asked));
  graph.set_device_properties(device);
  graph.set_sm_version(90);
  error = graph.validate();
  if (error.is_good()) error = graph.build_operation_graph();
  if (error.is_good()) error = graph.create_execution_plans({fe::HeurMode_t::A});
  if (error.is_good()) error = graph.check_support();
  return error;
}

class AttentionGraphs : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string missing = open_cudnn(); !missing.empty()) GTEST_SKIP() << missing;
  }
};

TEST_P(AttentionGraphs, HaveAKernelOnH200) {
  fe::graph::Graph graph;
  fe::error_t error = plans_of(GetParam(), graph);
  EXPECT_TRUE(error.is_good()) << error.get_message();
}

std::vector<Case> both_ways(const std::vector<AttentionShape>& shapes) {
  std::vector<Case> cases;
  for (const AttentionShape& shape : shapes)
    cases.insert(cases.end(), {{shape, false}, {shape, true}});
  return cases;
}

// batch, length, heads, heads of keys and values, head_size
const std::vector<Case>& with_kernels() {
  static const std::vector<Case> cases = both_ways({{64, 1024, 12, 12, 64},
                                                    {8, 2048, 32, 8, 128},
                                                    {2, 4096, 8, 4, 64},
                                                    {2, 37, 4, 2, 16},
                                                    {2, 12, 6, 6, 48},
                                                    {4, 1000, 8, 2, 80},
                                                    {4, 1024, 25, 25, 64},
                                                    {4, 1024, 8, 8, 192},
                                                    {4, 1024, 8, 8, 256}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionGraphs, testing::ValuesIn(with_kernels()), test_name);

class NoAttentionGraphs : public AttentionGraphs {};

TEST_P(NoAttentionGraphs, AreRefused) {
  fe::graph::Graph graph;
  EXPECT_TRUE(plans_of(GetParam(), graph).is_bad());
}

// A head size that is no multiple of 8 elements; one that only fits forward.
INSTANTIATE_TEST_SUITE_P(None, NoAttentionGraphs,
                         testing::Values(Case{{2, 64, 4, 4, 12}, false},
                                         Case{{2, 64, 4, 4, 12}, true},
                                         Case{{2, 64, 4, 4, 512}, true}),
                         test_name);

// B = 64, T = 1024 would take 1.5 GiB at once, and B = 8, T = 8192 12 GiB.
TEST(Workspace, IsKeptSmallByFewerSequencesAtOnce) {
  const auto at_once = [](const AttentionShape& shape, bool backward) {
    return sequences_at_once(arrays_of({shape, backward}));
  };
  EXPECT_EQ(at_once({64, 1024, 12, 12, 64}, true), 16);
  EXPECT_EQ(at_once({63, 1024, 12, 12, 64}, true), 21);
  EXPECT_EQ(at_once({8, 8192, 12, 12, 64}, true), 1);
  EXPECT_EQ(at_once({8, 256, 12, 12, 64}, true), 8);
  EXPECT_EQ(at_once({64, 1024, 12, 12, 64}, false), 64);
}

// Each part's arrays begin where the one before ends.
TEST(Workspace, PartsOfABatchCoverIt) {
  const AttentionShape shape{6, 8, 4, 2, 16};
  std::vector<Bfloat16> qkv(6 * 8 * 128), out(6 * 8 * 64), d_out(6 * 8 * 64), d_qkv(6 * 8 * 128);
  std::vector<float> log_sum_exp(6 * 8 * 4);
  AttentionArrays<Bfloat16> arrays;
  arrays.shape = shape;
  arrays.qkv = qkv.data();
  arrays.out = out.data();
  arrays.d_out = d_out.data();
  arrays.d_qkv = d_qkv.data();
  arrays.log_sum_exp = log_sum_exp.data();
  const AttentionArrays<Bfloat16> last = sequences_of(arrays, 4, 2);
  EXPECT_EQ(last.shape.batch, 2);
  EXPECT_EQ(last.qkv + 2 * 8 * 128, qkv.data() + qkv.size());
  EXPECT_EQ(last.out + 2 * 8 * 64, out.data() + out.size());
  EXPECT_EQ(last.d_out + 2 * 8 * 64, d_out.data() + d_out.size());
  EXPECT_EQ(last.d_qkv + 2 * 8 * 128, d_qkv.data() + d_qkv.size());
  EXPECT_EQ(last.log_sum_exp + 2 * 8 * 4, log_sum_exp.data() + log_sum_exp.size());
}

// What cuDNN itself says. One test for all cases: a cuDNN that does not say it takes a second to
// find that out, whichever case is asked about.
TEST(Workspace, IsWhatIsSaid) {
  if (const std::string missing = open_cudnn(); !missing.empty()) GTEST_SKIP() << missing;
  for (const Case& asked : with_kernels()) {
    SCOPED_TRACE(name_of(asked));
    fe::graph::Graph graph;
    ASSERT_TRUE(plans_of(asked, graph).is_good());
    std::int64_t bytes = -1;
    static_cast<void>(graph.build_plans());  // it could not load the kernel
    if (graph.get_workspace_size(bytes).is_bad())
      GTEST_SKIP() << "this cuDNN tells it on a GPU only";
    if (asked.backward) {
      EXPECT_LE(bytes, backward_workspace_bytes(asked.shape) * 101 / 100 + (4 << 20));
    } else {
      EXPECT_EQ(bytes, 0);
    }
  }
}

}  // namespace
}  // namespace causeway::intra::cuda
