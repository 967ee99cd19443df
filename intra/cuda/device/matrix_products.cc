#include "intra/cuda/device/matrix_products.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <system_error>
#include <tuple>
#include <vector>

#include "intra/cuda/device/cublas_lt.h"
#include "intra/cuda/device/device.h"
#include "intra/cuda/device/kept_algorithms.h"

namespace causeway::intra::cuda {
namespace {

// What NVIDIA recommends for Hopper; enough for all others.
constexpr std::size_t kWorkspaceBytes = 32U << 20;
// Rows and columns start at least this aligned: packs do.
constexpr std::uint32_t kAlignmentBytes = 16;
// Of a shape: how many algorithms are timed, how often, from where on one is not timed again, and
// how much faster than the library's own choice another must be.
constexpr int kTimed = 12, kRounds = 4, kRunsOfRound = 2;
constexpr float kHopeless = 1.1F, kWorthwhile = 0.99F;

using Algorithm = KeptAlgorithms::Algorithm;
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

const CublasLt& library() {
  static const CublasLt opened;
  return opened;
}

// All that a kernel is chosen by.
auto key_of(const Product& p) {
  return std::make_tuple(p.element, p.result, p.m, p.n, p.k, p.count, p.a.stride, p.a.transposed,
                         p.b.stride, p.b.transposed, p.c_stride, p.accumulate, p.epilogue);
}

std::string name_of(const Product& product) {
  std::string name;
  std::apply(
      [&](auto... part) { ((name += std::to_string(static_cast<std::int64_t>(part)) + ' '), ...); },
      key_of(product));
  name.pop_back();
  return name;
}

std::string shape_of(const Product& product) {
  constexpr std::array<const char*, 4> kEpilogues{"", " + bias", " + bias, GELU", " x GELU'"};
  return (product.count > 1 ? std::to_string(product.count) + " times " : std::string()) +
         std::to_string(product.m) + " x " + std::to_string(product.n) + " x " +
         std::to_string(product.k) + kEpilogues[static_cast<std::size_t>(product.epilogue)];
}

std::string machine_of(const std::string& device_name) {
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking the driver for its version");
  return device_name + ", driver " + std::to_string(driver) + ", cuBLASLt " +
         std::to_string(library().version());
}

}  // namespace

class MatrixProducts::Implementation {
 public:
  Implementation(const std::string& device_name, const std::optional<std::filesystem::path>& kept)
      : workspace_(kWorkspaceBytes) {
    library().require(library().create(&handle_), "starting cuBLASLt");
    if (kept) kept_.emplace(*kept, machine_of(device_name));
  }
  ~Implementation() { library().destroy(handle_); }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  bool run(const Product& product, cudaStream_t stream) {
    const auto [found, is_new] =
        chosen_.try_emplace(key_of(product), library(), product, std::nullopt);
    Chosen& chosen = found->second;
    if (is_new) chosen.algorithm = choose(product, chosen.plan, stream);
    if (!chosen.algorithm) return false;
    chosen.plan.set_pointers(product);
    library().require(multiply(product, chosen.plan, *chosen.algorithm, stream),
                      "multiplying " + shape_of(product));
    return true;
  }

 private:
  struct Chosen {
    Chosen(const CublasLt& opened, const Product& product, std::optional<Algorithm> by)
        : plan(opened, product), algorithm(by) {}
    ProductPlan plan;
    std::optional<Algorithm> algorithm;
  };

  cublasStatus_t multiply(const Product& product, const ProductPlan& plan,
                          const Algorithm& algorithm, cudaStream_t stream) const {
    const float one = 1, beta = product.accumulate ? 1 : 0;
    const auto opaque = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
    return library().matmul(handle_, plan.operation, &one, product.b.values, plan.a,
                            product.a.values, plan.b, &beta, product.c, plan.c, product.c, plan.c,
                            &opaque, workspace_.span().data(), kWorkspaceBytes, stream);
  }

  // The library's `most` best guesses, the best first.
  std::vector<Algorithm> proposed(const ProductPlan& plan, int most) const {
    cublasLtMatmulPreference_t preference = nullptr;
    library().require(library().create_preference(&preference), "describing a product");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      library().require(library().set_preference(preference, attribute, &value, sizeof value),
                        "describing a product");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, kAlignmentBytes);
    }
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
    int found = 0;
    const cublasStatus_t status =
        library().heuristic(handle_, plan.operation, plan.a, plan.b, plan.c, plan.c, preference,
                            most, results.data(), &found);
    library().destroy_preference(preference);
    // Anything else is a mistake in the description, which no other kernel would mend.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    library().require(status, "choosing a kernel for a product");
    std::vector<Algorithm> algorithms;
    for (int i = 0; i < found; ++i)
      algorithms.push_back(std::bit_cast<Algorithm>(results[static_cast<std::size_t>(i)].algo));
    return algorithms;
  }

  std::optional<Algorithm> choose(const Product& product, const ProductPlan& plan,
                                  cudaStream_t stream) {
    std::vector<Algorithm> algorithms = proposed(plan, kept_ ? kTimed : 1);
    if (algorithms.empty()) {
      spdlog::warn("cuBLASLt has no kernel for the product {}: it is done in steps",
                   shape_of(product));
      return std::nullopt;
    }
    if (!kept_) return algorithms.front();
    const auto usable = [&](const Algorithm& one) { return is_usable(plan, one); };
    const std::string name = name_of(product);
    if (const auto known = kept_->find(name, usable)) {
      spdlog::debug("product {}: the algorithm that is kept", shape_of(product));
      return known;
    }
    if (!kept_->can_keep()) return algorithms.front();
    // What another process kept meanwhile comes first.
    kept_->keep(name, fastest(product, plan, algorithms, stream));
    return kept_->find(name, usable).value_or(algorithms.front());
  }

  bool is_usable(const ProductPlan& plan, const Algorithm& algorithm) const {
    const auto opaque = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
    cublasLtMatmulHeuristicResult_t needs{};
    return library().check_algorithm(handle_, plan.operation, plan.a, plan.b, plan.c, plan.c,
                                     &opaque, &needs) == CUBLAS_STATUS_SUCCESS &&
           needs.workspaceSize <= kWorkspaceBytes;
  }

  // Whether its parts of k are added in an order that does not depend on which is done first.
  static bool has_fixed_order(const Algorithm& algorithm) {
    const auto opaque = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
    std::uint32_t scheme = 0;
    std::size_t written = 0;
    return library().algorithm_attribute(&opaque, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                         sizeof scheme, &written) == CUBLAS_STATUS_SUCCESS &&
           scheme != CUBLASLT_REDUCTION_SCHEME_INPLACE;
  }

  // In milliseconds; infinite: it cannot do it after all.
  float time(const Product& product, const ProductPlan& plan, const Algorithm& algorithm,
             cudaStream_t stream) const {
    check(cudaEventRecord(start_.get(), stream), "timing a product");
    for (int run = 0; run < kRunsOfRound; ++run) {
      if (multiply(product, plan, algorithm, stream) != CUBLAS_STATUS_SUCCESS)
        return std::numeric_limits<float>::infinity();
    }
    check(cudaEventRecord(end_.get(), stream), "timing a product");
    end_.synchronize();
    return end_.milliseconds_since(start_) / kRunsOfRound;
  }

  // In turns, so that a GPU that slows down meanwhile slows them all. The product itself may be
  // done as often as one likes, but for one that adds to its result: that adds to other memory.
  Algorithm fastest(const Product& product, const ProductPlan& plan,
                    std::vector<Algorithm> algorithms, cudaStream_t stream) const {
    algorithms.erase(std::remove_if(algorithms.begin() + 1, algorithms.end(),
                                    [](const Algorithm& one) { return !has_fixed_order(one); }),
                     algorithms.end());
    Product tried = product;
    std::optional<DeviceArray<std::byte>> other;
    if (product.accumulate) {
      const std::size_t bytes = product.result == Element::fp32 ? 4 : 2;
      try {
        other.emplace(static_cast<std::size_t>(product.count * product.m * product.c_stride) *
                      bytes);
      } catch (const std::system_error&) {
        cudaGetLastError();  // is not the next kernel's
        return algorithms.front();
      }
      tried.c = other->span().data();
    }
    std::vector<float> least(algorithms.size(), std::numeric_limits<float>::infinity());
    for (int round = 0; round <= kRounds; ++round) {
      const float hopeless = kHopeless * *std::ranges::min_element(least);
      for (std::size_t i = 0; i < algorithms.size(); ++i) {
        if (round > 1 && least[i] > hopeless) continue;
        const float took = time(tried, plan, algorithms[i], stream);
        if (round > 0) least[i] = std::min(least[i], took);  // the first warms up
      }
    }
    const auto best = std::ranges::min_element(least);
    const auto chosen = *best < kWorthwhile * least.front() ? best : least.begin();
    spdlog::debug("product {}: algorithm {} of {}, {:.4f} ms; the library's first {:.4f}",
                  shape_of(product), chosen - least.begin() + 1, least.size(), *chosen,
                  least.front());
    return algorithms[static_cast<std::size_t>(chosen - least.begin())];
  }

  cublasLtHandle_t handle_ = nullptr;
  DeviceArray<std::byte> workspace_;
  const Event start_{true}, end_{true};
  std::optional<KeptAlgorithms> kept_;
  std::map<decltype(key_of(Product{})), Chosen> chosen_;
};

MatrixProducts::MatrixProducts(const std::string& device_name,
                               const std::optional<std::filesystem::path>& kept)
    : implementation_(std::make_unique<Implementation>(device_name, kept)) {}
MatrixProducts::~MatrixProducts() = default;

bool MatrixProducts::run(const Product& product, cudaStream_t stream) {
  return implementation_->run(product, stream);
}

}  // namespace causeway::intra::cuda
