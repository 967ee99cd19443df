#include "intra/model/gemm.h"

#include <algorithm>
#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "intra/base/error.h"
#include "intra/model/kernels/kernels.h"

namespace causeway::intra {

Products choose_products(ModelOptions::Precision precision) {
  if (precision == ModelOptions::Precision::fp32) return Products::fp32;
  // Instruction sets are bit masks in which a larger set contains the smaller one's bits.
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  const auto available = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (available & kNeeded) == kNeeded ? Products::bf16 : Products::bf16_emulated;
}

void make_operand(Products products, std::int64_t count, const float* values, void* operand) {
  switch (products) {
    case Products::fp32:
      if (operand != values) std::copy_n(values, count, static_cast<float*>(operand));
      break;
    case Products::bf16:
      convert_to_bf16(count, values, static_cast<std::uint16_t*>(operand));
      break;
    case Products::bf16_emulated:
      round_to_bf16(count, values, static_cast<float*>(operand));
      break;
  }
}

namespace {

using dnnl::memory;

// One row-major product C (m, n) (+)= A (m, k) B (k, n); strides of A and B say how they are
// stored.
struct Product {
  std::int64_t m, n, k;
  memory::dims a_strides, b_strides;
  std::int64_t c_stride;
  bool bias, accumulate;
  std::int64_t count = 1;  // such products, whose A, B and C each lie one after the other

  auto key() const {
    return std::tie(m, n, k, a_strides, b_strides, c_stride, bias, accumulate, count);
  }
  bool operator<(const Product& other) const { return key() < other.key(); }
};

// Of `count` matrices of rows x columns.
memory::desc describe(std::int64_t count, std::int64_t rows, std::int64_t columns,
                      memory::data_type type, const memory::dims& strides) {
  if (count == 1) return {{rows, columns}, type, strides};
  const std::int64_t matrix = std::max(rows * strides[0], columns * strides[1]);
  return {{count, rows, columns}, type, {matrix, strides[0], strides[1]}};
}

dnnl::matmul::primitive_desc describe(const Product& product, memory::data_type type,
                                      const dnnl::engine& engine) {
  const memory::desc a = describe(product.count, product.m, product.k, type, product.a_strides);
  const memory::desc b = describe(product.count, product.k, product.n, type, product.b_strides);
  const memory::desc c = describe(product.count, product.m, product.n, memory::data_type::f32,
                                  memory::dims{product.c_stride, 1});
  const memory::desc bias({1, product.n}, memory::data_type::f32, memory::dims{product.n, 1});
  dnnl::primitive_attr attributes;
  if (product.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const auto matmul =
      product.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  return {matmul, attributes, engine};
}

// A primitive and its memory objects. The C interface takes a plain array of arguments; the C++ one
// would allocate a map and a vector in every call.
class PreparedProduct {
 public:
  PreparedProduct(const Product& product, memory::data_type type, const dnnl::engine& engine)
      : PreparedProduct(describe(product, type, engine), product.bias, engine) {}
  PreparedProduct(const PreparedProduct&) = delete;
  PreparedProduct& operator=(const PreparedProduct&) = delete;

  void run(const dnnl::stream& stream, const void* a, const void* b, const float* bias, float* c) {
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    if (argument_count_ == 4) bias_.set_data_handle(const_cast<float*>(bias));
    const auto status =
        dnnl_primitive_execute(primitive_.get(), stream.get(), argument_count_, arguments_.data());
    dnnl::error::wrap_c_api(status, "a matrix product failed");
  }

 private:
  PreparedProduct(const dnnl::matmul::primitive_desc& description, bool bias,
                  const dnnl::engine& engine)
      : primitive_(description),
        a_(description.src_desc(), engine, nullptr),
        b_(description.weights_desc(), engine, nullptr),
        c_(description.dst_desc(), engine, nullptr),
        arguments_{{{DNNL_ARG_SRC, a_.get()},
                    {DNNL_ARG_WEIGHTS, b_.get()},
                    {DNNL_ARG_DST, c_.get()},
                    {}}} {
    if (bias) {
      bias_ = memory(description.bias_desc(), engine, nullptr);
      arguments_[3] = {DNNL_ARG_BIAS, bias_.get()};
      argument_count_ = 4;
    }
  }

  dnnl::matmul primitive_;
  memory a_, b_, c_, bias_;
  std::array<dnnl_exec_arg_t, 4> arguments_;
  int argument_count_ = 3;
};

}  // namespace

struct Gemm::Implementation {
  explicit Implementation(Products products)
      : type(products == Products::bf16 ? memory::data_type::bf16 : memory::data_type::f32),
        engine(dnnl::engine::kind::cpu, 0),
        stream(engine) {}

  void run(const Product& product, const void* a, const void* b, const float* bias, float* c) {
    auto found = prepared.find(product);
    if (found == prepared.end()) {
      found = prepared.try_emplace(product, product, type, engine).first;
    }
    found->second.run(stream, a, b, bias, c);
  }

  memory::data_type type;
  dnnl::engine engine;
  dnnl::stream stream;
  std::map<Product, PreparedProduct> prepared;
};

Gemm::Gemm(Products products) : implementation_(std::make_unique<Implementation>(products)) {}
Gemm::~Gemm() = default;

void Gemm::forward(const LinearShape& shape, const void* x, const void* weight, const float* bias,
                   float* y) {
  implementation_->run({.m = shape.rows,
                        .n = shape.out,
                        .k = shape.in,
                        .a_strides = {shape.x_stride, 1},
                        .b_strides = {1, shape.in},
                        .c_stride = shape.y_stride,
                        .bias = bias != nullptr,
                        .accumulate = false,
                        .count = shape.count},
                       x, weight, bias, y);
}

void Gemm::backward_input(const LinearShape& shape, const void* dy, const void* weight, float* dx,
                          bool accumulate) {
  implementation_->run({.m = shape.rows,
                        .n = shape.in,
                        .k = shape.out,
                        .a_strides = {shape.y_stride, 1},
                        .b_strides = {shape.in, 1},
                        .c_stride = shape.x_stride,
                        .bias = false,
                        .accumulate = accumulate,
                        .count = shape.count},
                       dy, weight, nullptr, dx);
}

void Gemm::backward_weight(const LinearShape& shape, const void* dy, const void* x, float* dweight,
                           bool accumulate) {
  implementation_->run({.m = shape.out,
                        .n = shape.in,
                        .k = shape.rows,
                        .a_strides = {1, shape.y_stride},
                        .b_strides = {shape.x_stride, 1},
                        .c_stride = shape.in,
                        .bias = false,
                        .accumulate = accumulate,
                        .count = shape.count},
                       dy, x, nullptr, dweight);
}

}  // namespace causeway::intra
