// A Backend that does everything on the CPU, one thread playing all lanes of a group in turn: the
// same jobs, line by line, that kernels run. Backwards, lanes and rows come in the other order:
// what depends on it, and so is a race on a device, differs between the two.
//
// Nothing is done before somebody waits for it, so that who forgets to wait finds old values.
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "intra/cuda/backend.h"
#include "intra/forwarding_collective.h"
#include "tests/compression/serial_group.h"

namespace causeway::intra::cuda {

class SerialBackend final : public Backend {
 public:
  explicit SerialBackend(bool backwards = false, bool reaches_ranks = true)
      : backwards_(backwards), reaches_ranks_(reaches_ranks) {}

  std::string device() const override { return "CPU"; }
  std::unique_ptr<Collective> group(Collective& hosts, std::chrono::milliseconds) override {
    if (!reaches_ranks_) return nullptr;
    return std::make_unique<ForwardingCollective>(hosts);  // its memory is the host's
  }
  std::function<void()> point() override {
    const std::lock_guard lock(mutex_);
    return [this, until = done_ + asked_.size()] { work_until(until); };
  }
  std::byte* allocate(std::size_t bytes) override {
    constexpr std::size_t kPieces = sizeof(Piece);
    memory_.push_back(std::make_unique<Piece[]>((bytes + kPieces - 1) / kPieces));
    return reinterpret_cast<std::byte*>(memory_.back().get());
  }
  void release(std::byte* memory) override {
    point()();
    std::erase_if(memory_, [&](const auto& one) {
      return reinterpret_cast<std::byte*>(one.get()) == memory;
    });
  }
  void upload(const void* from, void* to, std::size_t bytes) override {
    const auto* begin = static_cast<const std::byte*>(from);
    later([to, copy = std::vector(begin, begin + bytes)] {
      std::memcpy(to, copy.data(), copy.size());
    });
  }
  void download(const void* from, void* to, std::size_t bytes) override {
    point()();
    std::memcpy(to, from, bytes);
  }
  void clear(void* values, std::size_t bytes) override {
    later([=] { std::memset(values, 0, bytes); });
  }

  void run(const Job& job) override {
    later([this, job] { std::visit([this](const auto& each) { play(each); }, job); });
  }
  void run(const OuterJob& job) override {
    later([this, job] { std::visit([this](const auto& each) { play(each); }, job); });
  }
  void multiply(const Product& product) override {
    later([this, product] {
      if (product.element == Element::fp32) return multiply<float, float>(product);
      if (product.result == Element::fp32) return multiply<Bfloat16, float>(product);
      multiply<Bfloat16, Bfloat16>(product);
    });
  }
  void attend(const AttentionArrays<float>& arrays) override { attend_by_jobs(*this, arrays); }
  void attend(const AttentionArrays<Bfloat16>& arrays) override { attend_by_jobs(*this, arrays); }
  void repeat(std::uint64_t, const std::function<void()>& work) override { work(); }

 private:
  struct alignas(256) Piece {
    std::byte bytes[256];
  };

  void later(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    asked_.push_back(std::move(work));
  }
  void work_until(std::uint64_t until) {
    const std::lock_guard lock(mutex_);
    for (; done_ < until; ++done_) {
      asked_.front()();
      asked_.pop_front();
    }
  }

  std::int64_t place(std::int64_t i, std::int64_t count) const {
    return backwards_ ? count - 1 - i : i;
  }

  template <typename J>
  void play(const J& job) const {
    if constexpr (ElementJob<J>) {
      for (std::int64_t i = 0; i < job.count(); ++i) job.element(place(i, job.count()));
    } else {
      compression::cuda::SerialGroup<J::kLanes> group(backwards_);
      for (std::int64_t r = 0; r < job.rows; ++r) {
        typename J::Memory memory;
        std::memset(static_cast<void*>(&memory), 0xEE, sizeof memory);
        job.row(group, memory, place(r, job.rows));
      }
    }
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

  bool backwards_, reaches_ranks_;
  std::vector<std::unique_ptr<Piece[]>> memory_;
  std::mutex mutex_;  // guards what follows
  std::deque<std::function<void()>> asked_;
  std::uint64_t done_ = 0;
};

}  // namespace causeway::intra::cuda
