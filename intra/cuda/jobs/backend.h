// Where training steps and outer rounds run: memory, jobs and matrix products. Implementations:
// CUDA (cuda_backend.h), and a serial one on the CPU in the tests, which runs the same lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "intra/collective/collective.h"
#include "intra/cuda/jobs/jobs.h"

namespace causeway::intra::cuda {

// Row-major c (m, n) = a (m, k) b (k, n), then the epilogue. Or `count` such products of matrices
// that lie one after the other without gaps, each as stored: without an epilogue.
struct Product {
  struct Operand {
    const void* values = nullptr;
    std::int64_t stride = 0;  // between stored rows
    bool transposed = false;  // stored as (k, m) or (n, k)
  };
  enum class Epilogue : std::uint8_t {
    none,
    bias,           // c += bias
    bias_gelu,      // before_gelu = c + bias; c = gelu(before_gelu)
    gelu_gradient,  // c *= gelu'(before_gelu)
  };

  Element element = Element::bf16;  // of a, b, bias and before_gelu
  Element result = Element::bf16;   // of c
  std::int64_t m = 0, n = 0, k = 0, count = 1;
  Operand a, b;
  void* c = nullptr;
  std::int64_t c_stride = 0;
  bool accumulate = false;  // c += a b; without an epilogue
  Epilogue epilogue = Epilogue::none;
  const void* bias = nullptr;   // (n)
  void* before_gelu = nullptr;  // as c
};

// Product `i` of several.
inline Product product_at(const Product& several, std::int64_t i) {
  Product one = several;
  one.count = 1;
  const auto bytes = [](Element element, std::int64_t elements) {
    return elements * static_cast<std::int64_t>(element == Element::fp32 ? 4 : 2);
  };
  const auto move = [&](Product::Operand& of, std::int64_t rows, std::int64_t columns) {
    const std::int64_t stored = (of.transposed ? columns : rows) * of.stride;
    of.values = static_cast<const std::byte*>(of.values) + bytes(one.element, i * stored);
  };
  move(one.a, one.m, one.k);
  move(one.b, one.k, one.n);
  one.c = static_cast<std::byte*>(one.c) + bytes(one.result, i * one.m * one.c_stride);
  return one;
}

// What a queue has been asked for by some moment. For any thread.
class Point {
 public:
  virtual ~Point() = default;
  virtual void wait() const = 0;  // until all of it is done
  virtual bool reached() const = 0;
};

// Work in a backend's memory, in the order it is asked for.
class Queue {
 public:
  virtual ~Queue() = default;

  virtual std::shared_ptr<const Point> point() = 0;  // now
  // What is asked for from now on comes after the point, of any queue of the same backend; the
  // caller does not wait.
  virtual void after(const Point& point) = 0;

  // These two on any thread. After upload() `from` may change; download() returns when it is there.
  virtual void upload(const void* from, void* to, std::size_t bytes) = 0;
  virtual void download(const void* from, void* to, std::size_t bytes) = 0;
  virtual void clear(void* values, std::size_t bytes) = 0;
  virtual void run(const OuterJob& job) = 0;
};

// Is the queue that steps are done in.
class Backend : public Queue {
 public:
  virtual std::string device() const = 0;  // what its driver calls it

  // The ranks of `hosts`, which outlives it, as a group for spans in this memory; null, on all
  // ranks alike, if they can only meet on the host. Its calls do not wait for what the backend was
  // asked for. `deadline`: of forming and of every operation.
  virtual std::unique_ptr<Collective> group(Collective& hosts,
                                            std::chrono::milliseconds deadline) = 0;
  // A queue whose work is done beside this one's. The backend outlives it.
  virtual std::unique_ptr<Queue> beside() = 0;

  // Zeros, until they are released or the backend ends.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;
  // In use in the device's memory, by whomever, as found at allocations; the most.
  virtual std::uint64_t memory_peak_bytes() const = 0;

  using Queue::run;
  virtual void run(const Job& job) = 0;
  virtual void multiply(const Product& product) = 0;
  // out and log_sum_exp; d_qkv. Null `d_out`: forward.
  virtual void attend(const AttentionArrays<float>& arrays) = 0;
  virtual void attend(const AttentionArrays<Bfloat16>& arrays) = 0;

  // Does `work`, or what it did before under the same `name`: then it must ask for the same again.
  virtual void repeat(std::uint64_t name, const std::function<void()>& work) = 0;
};

// On GPU `rank` modulo how many there are. With `times_products` the fastest of cuBLASLt's kernels
// are found on this machine once, and kept in the user's cache. Throws std::system_error saying
// what to do if there is none, or if this program was built without CUDA.
std::unique_ptr<Backend> make_cuda_backend(std::uint32_t rank, bool times_products = false);
// Where that GPU hangs, "0000:1b:00.0"; empty: there is none.
std::string pci_address(std::uint32_t rank);

// attend() by plain jobs.
template <typename T>
void attend_by_jobs(Backend& backend, const AttentionArrays<T>& arrays) {
  const AttentionShape& shape = arrays.shape;
  const std::int64_t queries = shape.batch * shape.heads * shape.length;
  if (arrays.d_out == nullptr) {
    backend.run(AttentionForward<T>{queries, arrays});
  } else {
    backend.run(AttentionQueryGradient<T>{queries, arrays});
    backend.run(AttentionKeyGradient<T>{shape.batch * shape.kv_heads * shape.length, arrays});
  }
}

}  // namespace causeway::intra::cuda
