#include "intra/gradient_reducer.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "intra/flat_parts.h"

namespace causeway::intra {
namespace {

struct Bucket {
  std::size_t begin, end;  // elements of the flat span
};

// Cuts [begin, end) into buckets from the top down; the last may be smaller.
void append_buckets(std::size_t begin, std::size_t end, std::size_t elements,
                    std::vector<Bucket>& plan) {
  while (end > begin) {
    const std::size_t cut = end - begin > elements ? end - elements : begin;
    plan.push_back({cut, end});
    end = cut;
  }
}

std::size_t bucket_elements(std::size_t bucket_bytes) {
  constexpr std::size_t kChunk = 4096, kChunkBytes = kChunk * sizeof(float);
  const std::size_t chunks = (bucket_bytes + kChunkBytes - 1) / kChunkBytes;
  return std::max<std::size_t>(chunks, 1) * kChunk;
}

}  // namespace

// The plan advances through three counts: reduced_ <= released_ <= plan_.size(). The caller's
// thread moves released_, the communication thread reduced_.
class GradientReducer::Worker {
 public:
  Worker(Collective& collective, const diloco::Layout& layout, std::span<float> gradients,
         std::size_t bucket_bytes, Point point);
  ~Worker();
  void ready(std::size_t offset, std::size_t count);
  void finish();

 private:
  void run();
  void reduce(const Bucket& bucket, const Wait& wait);
  void release(std::size_t count);

  Collective& collective_;
  const std::span<float> gradients_;
  const Point point_;
  const std::size_t matrices_end_;
  std::vector<Bucket> plan_;  // matrices first, each kind from the top of the span down

  std::size_t frontier_;  // matrix elements from here up are final; the caller's thread alone

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::size_t released_ = 0;
  std::vector<Wait> waits_;  // before a bucket is reduced; empty: it is there
  std::size_t reduced_ = 0;
  std::exception_ptr error_;
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all of the above
};

GradientReducer::Worker::Worker(Collective& collective, const diloco::Layout& layout,
                                std::span<float> gradients, std::size_t bucket_bytes, Point point)
    : collective_(collective),
      gradients_(gradients),
      point_(std::move(point)),
      matrices_end_(matrices_end(layout)),
      frontier_(matrices_end_) {
  append_buckets(0, matrices_end_, bucket_elements(bucket_bytes), plan_);
  append_buckets(matrices_end_, layout.size(), bucket_elements(bucket_bytes), plan_);
  waits_.resize(plan_.size());
  thread_ = std::thread([this] { run(); });
}

GradientReducer::Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void GradientReducer::Worker::ready(std::size_t offset, std::size_t count) {
  if (offset >= matrices_end_) return;  // vectors wait for finish()
  assert(offset + count <= frontier_ && "matrices must become ready in descending order");
  frontier_ = offset;
  std::size_t final_buckets = 0;
  while (final_buckets < plan_.size() && plan_[final_buckets].end <= matrices_end_ &&
         plan_[final_buckets].begin >= frontier_) {
    ++final_buckets;
  }
  release(final_buckets);
}

void GradientReducer::Worker::release(std::size_t count) {
  if (count == released_) return;
  Wait wait = point_ ? point_() : Wait();
  {
    const std::lock_guard lock(mutex_);
    waits_[released_] = std::move(wait);  // those after it are at the same point
    released_ = count;
  }
  changed_.notify_all();
}

void GradientReducer::Worker::finish() {
  release(plan_.size());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reduced_ == plan_.size() || error_; });
  if (error_) std::rethrow_exception(error_);
  released_ = 0;
  reduced_ = 0;
  frontier_ = matrices_end_;
}

void GradientReducer::Worker::reduce(const Bucket& bucket, const Wait& wait) {
  if (wait) wait();
  collective_.all_reduce_sum(gradients_.subspan(bucket.begin, bucket.end - bucket.begin));
}

void GradientReducer::Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return reduced_ < released_ || stopping_; });
    if (stopping_) return;
    const Bucket bucket = plan_[reduced_];
    const Wait wait = std::exchange(waits_[reduced_], {});
    lock.unlock();
    std::exception_ptr error;
    try {
      reduce(bucket, wait);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      error_ = error;
      changed_.notify_all();
      return;
    }
    ++reduced_;
    changed_.notify_all();
  }
}

GradientReducer::GradientReducer(Collective& collective, const diloco::Layout& layout,
                                 std::span<float> gradients, std::size_t bucket_bytes,
                                 Point point) {
  assert(gradients.size() == layout.size());
  if (collective.size() == 1) return;
  worker_ = std::make_unique<Worker>(collective, layout, gradients, bucket_bytes, std::move(point));
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::ready(std::size_t offset, std::size_t count) {
  if (worker_) worker_->ready(offset, count);
}

void GradientReducer::finish() {
  if (worker_) worker_->finish();
}

}  // namespace causeway::intra
