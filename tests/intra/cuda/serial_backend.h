// A Backend that does everything on the CPU, one thread playing all lanes of a group in turn: the
// same jobs, line by line, that kernels run. Backwards, lanes and rows come in the other order:
// what depends on it, and so is a race on a device, differs between the two.
//
// Nothing is done before somebody waits for it, so that who forgets to wait, or to let one queue
// wait for another, finds old values.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "intra/collective/collective.h"
#include "intra/cuda/jobs/backend.h"
#include "tests/compression/cuda/serial_group.h"

namespace causeway::intra::cuda {

// What one queue was asked for and has not done yet.
struct SerialWork {
  std::deque<std::function<void()>> left;
  std::uint64_t done = 0;

  std::uint64_t asked() const { return done + left.size(); }
  // Work may wait for other queues, and they for earlier work of this one.
  void go_on_until(std::uint64_t until) {
    while (done < until) {
      const std::function<void()> next = std::move(left.front());
      left.pop_front();
      ++done;
      next();
    }
  }
};

// What all queues of a backend share.
struct SerialOrder {
  bool backwards = false;
  std::recursive_mutex mutex;  // of all that is asked for, as queues wait for each other
  std::vector<std::shared_ptr<SerialWork>> all;  // of each queue

  std::int64_t place(std::int64_t i, std::int64_t count) const {
    return backwards ? count - 1 - i : i;
  }
  template <typename J>
  void play(const J& job) const {
    if constexpr (ElementJob<J>) {
      for (std::int64_t i = 0; i < job.count(); ++i) job.element(place(i, job.count()));
    } else {
      compression::cuda::SerialGroup<J::kLanes> group(backwards);
      for (std::int64_t r = 0; r < job.rows; ++r) {
        typename J::Memory memory;
        std::memset(static_cast<void*>(&memory), 0xEE, sizeof memory);
        job.row(group, memory, place(r, job.rows));
      }
    }
  }
};

class SerialPoint final : public Point {
 public:
  SerialPoint(std::shared_ptr<SerialOrder> order, std::shared_ptr<SerialWork> work)
      : order_(std::move(order)), work_(std::move(work)), until_(work_->asked()) {}
  void wait() const override {
    const std::lock_guard lock(order_->mutex);
    work_->go_on_until(until_);
  }
  bool reached() const override {
    const std::lock_guard lock(order_->mutex);
    return work_->done >= until_;
  }

 private:
  std::shared_ptr<SerialOrder> order_;
  std::shared_ptr<SerialWork> work_;
  std::uint64_t until_;
};

template <typename Kind>
class SerialQueue : public Kind {
 public:
  explicit SerialQueue(std::shared_ptr<SerialOrder> order) : order_(std::move(order)) {
    order_->all.push_back(work_);
  }

  std::shared_ptr<const Point> point() override {
    const std::lock_guard lock(order_->mutex);
    return std::make_shared<SerialPoint>(order_, work_);
  }
  void after(const Point& point) override {
    later([wait = dynamic_cast<const SerialPoint&>(point)] { wait.wait(); });
  }
  void upload(const void* from, void* to, std::size_t bytes) override {
    const auto* begin = static_cast<const std::byte*>(from);
    later([to, copy = std::vector(begin, begin + bytes)] {
      std::memcpy(to, copy.data(), copy.size());
    });
  }
  void download(const void* from, void* to, std::size_t bytes) override {
    point()->wait();
    std::memcpy(to, from, bytes);
  }
  void clear(void* values, std::size_t bytes) override {
    later([=] { std::memset(values, 0, bytes); });
  }
  void run(const OuterJob& job) override {
    later([order = order_, job] { std::visit([&](const auto& each) { order->play(each); }, job); });
  }

 protected:
  void later(std::function<void()> work) {
    const std::lock_guard lock(order_->mutex);
    work_->left.push_back(std::move(work));
  }
  // Until all queues have done what they were asked for.
  void finish_all() {
    const std::lock_guard lock(order_->mutex);
    for (const auto& work : order_->all) work->go_on_until(work->asked());
  }
  const std::shared_ptr<SerialOrder>& order() const { return order_; }

 private:
  std::shared_ptr<SerialOrder> order_;
  std::shared_ptr<SerialWork> work_ = std::make_shared<SerialWork>();
};

class SerialBackend final : public SerialQueue<Backend> {
 public:
  explicit SerialBackend(bool backwards = false, bool reaches_ranks = true)
      : SerialQueue(std::make_shared<SerialOrder>()), reaches_ranks_(reaches_ranks) {
    order()->backwards = backwards;
  }
  ~SerialBackend() override { finish_all(); }
  SerialBackend(const SerialBackend&) = delete;
  SerialBackend& operator=(const SerialBackend&) = delete;

  std::string device() const override { return "CPU"; }
  std::unique_ptr<Collective> group(Collective& hosts, std::chrono::milliseconds) override {
    if (!reaches_ranks_) return nullptr;
    return std::make_unique<ForwardingCollective>(hosts);  // its memory is the host's
  }
  std::unique_ptr<Queue> beside() override { return std::make_unique<SerialQueue<Queue>>(order()); }
  std::uint64_t memory_peak_bytes() const override { return allocated_bytes_; }  // none released
  std::byte* allocate(std::size_t bytes) override {
    allocated_bytes_ += bytes;
    constexpr std::size_t kPieces = sizeof(Piece);
    memory_.push_back(std::make_unique<Piece[]>((bytes + kPieces - 1) / kPieces));
    return reinterpret_cast<std::byte*>(memory_.back().get());
  }
  void release(std::byte* memory) override {
    finish_all();
    std::erase_if(memory_, [&](const auto& one) {
      return reinterpret_cast<std::byte*>(one.get()) == memory;
    });
  }
  using SerialQueue::run;
  void run(const Job& job) override {
    later(
        [order = order(), job] { std::visit([&](const auto& each) { order->play(each); }, job); });
  }
  void multiply(const Product& product) override {
    later([this, product] {
      for (std::int64_t i = 0; i < product.count; ++i) multiply_one(product_at(product, i));
    });
  }
  void attend(const AttentionArrays<float>& arrays) override { attend_by_jobs(*this, arrays); }
  void attend(const AttentionArrays<Bfloat16>& arrays) override { attend_by_jobs(*this, arrays); }
  void repeat(std::uint64_t, const std::function<void()>& work) override { work(); }

 private:
  struct alignas(256) Piece {
    std::byte bytes[256];
  };

  void multiply_one(const Product& product) const {
    if (product.element == Element::fp32) return multiply<float, float>(product);
    if (product.result == Element::fp32) return multiply<Bfloat16, float>(product);
    multiply<Bfloat16, Bfloat16>(product);
  }

  template <typename T>
  static float at(const Product::Operand& operand, std::int64_t row, std::int64_t column) {
    const auto* values = static_cast<const T*>(operand.values);
    return load(operand.transposed ? values[column * operand.stride + row]
                                   : values[row * operand.stride + column]);
  }

  template <typename T, typename Result>
  void multiply(const Product& product) const {
    for (std::int64_t i = 0; i < product.m; ++i) {
      for (std::int64_t j = 0; j < product.n; ++j) {
        float sum = 0;
        for (std::int64_t l = 0; l < product.k; ++l) {
          sum += at<T>(product.a, i, l) * at<T>(product.b, l, j);
        }
        Result& out = static_cast<Result*>(product.c)[i * product.c_stride + j];
        if (product.accumulate) sum += load(out);
        store(finish<T>(product, i * product.c_stride + j, j, sum), out);
      }
    }
  }

  template <typename T>
  static float finish(const Product& product, std::int64_t place, std::int64_t column, float sum) {
    auto* before_gelu = static_cast<T*>(product.before_gelu);
    switch (product.epilogue) {
      case Product::Epilogue::none:
        return sum;
      case Product::Epilogue::bias:
        return sum + load(static_cast<const T*>(product.bias)[column]);
      case Product::Epilogue::bias_gelu:
        sum += load(static_cast<const T*>(product.bias)[column]);
        store(sum, before_gelu[place]);
        return gelu(sum);
      case Product::Epilogue::gelu_gradient:
        return sum * gelu_slope(load(before_gelu[place]));
    }
    return sum;
  }

  bool reaches_ranks_;
  std::uint64_t allocated_bytes_ = 0;
  std::vector<std::unique_ptr<Piece[]>> memory_;
};

}  // namespace causeway::intra::cuda
