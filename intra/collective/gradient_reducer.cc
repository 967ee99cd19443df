#include "intra/collective/gradient_reducer.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "intra/base/adamw.h"

namespace causeway::intra {

// The plan advances through three counts: reduced_ <= released_ <= buckets. The caller's
// thread moves released_, the communication thread reduced_.
class GradientReducer::Worker {
 public:
  Worker(Collective& collective, GradientBuckets buckets, std::span<float> gradients, Result result,
         Point point);
  ~Worker();
  void ready(std::size_t offset, std::size_t count);
  void set_held(bool held);
  void finish();

 private:
  void run();
  void reduce(std::size_t bucket, const Wait& wait);
  void release(std::size_t count);

  Collective& collective_;
  const std::span<float> gradients_;
  const GradientBuckets buckets_;
  const Result result_;
  const Point point_;

  std::size_t frontier_;  // matrix elements from here up are final; the caller's thread alone

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::size_t released_ = 0;
  std::vector<Wait> waits_;  // before a bucket is reduced; empty: it is there
  std::size_t reduced_ = 0;
  std::exception_ptr error_;
  bool held_ = false;
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all of the above
};

GradientReducer::Worker::Worker(Collective& collective, GradientBuckets buckets,
                                std::span<float> gradients, Result result, Point point)
    : collective_(collective),
      gradients_(gradients),
      buckets_(std::move(buckets)),
      result_(result),
      point_(std::move(point)),
      frontier_(buckets_.matrices_end()),
      waits_(buckets_.all().size()) {
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
  if (offset >= buckets_.matrices_end()) return;  // vectors wait for finish()
  assert(offset + count <= frontier_ && "matrices must become ready in descending order");
  frontier_ = offset;
  std::size_t final_buckets = 0;
  for (const Range& bucket : buckets_.all()) {
    if (bucket.end > buckets_.matrices_end() || bucket.begin < frontier_) break;
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

void GradientReducer::Worker::set_held(bool held) {
  {
    const std::lock_guard lock(mutex_);
    held_ = held;
  }
  changed_.notify_all();
}

void GradientReducer::Worker::finish() {
  assert(!held_);
  release(buckets_.all().size());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reduced_ == buckets_.all().size() || error_; });
  if (error_) std::rethrow_exception(error_);
  released_ = 0;
  reduced_ = 0;
  frontier_ = buckets_.matrices_end();
}

void GradientReducer::Worker::reduce(std::size_t bucket, const Wait& wait) {
  if (wait) wait();
  const Range& range = buckets_.all()[bucket];
  const auto values = gradients_.subspan(range.begin, range.count());
  if (result_ == Result::everywhere) return collective_.all_reduce_sum(values);
  collective_.reduce_scatter_sum(values, buckets_.counts(bucket, collective_.size()));
}

void GradientReducer::Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return (reduced_ < released_ && !held_) || stopping_; });
    if (stopping_) return;
    const std::size_t bucket = reduced_;
    const Wait wait = std::exchange(waits_[bucket], {});
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

GradientReducer::GradientReducer(Collective& collective, GradientBuckets buckets,
                                 std::span<float> gradients, Result result, Point point) {
  if (collective.size() == 1) return;
  worker_ =
      std::make_unique<Worker>(collective, std::move(buckets), gradients, result, std::move(point));
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::ready(std::size_t offset, std::size_t count) {
  if (worker_) worker_->ready(offset, count);
}

void GradientReducer::hold() {
  if (worker_) worker_->set_held(true);
}

void GradientReducer::resume() {
  if (worker_) worker_->set_held(false);
}

void GradientReducer::finish() {
  if (worker_) worker_->finish();
}

namespace {

// Cuts [begin, end) into buckets from the top down; the last may be smaller.
void append_buckets(std::size_t begin, std::size_t end, std::size_t elements,
                    std::vector<Range>& buckets) {
  while (end > begin) {
    const std::size_t cut = end - begin > elements ? end - elements : begin;
    buckets.push_back({cut, end});
    end = cut;
  }
}

// The same with whole matrices.
void append_buckets(const std::vector<Range>& matrices, std::size_t elements,
                    std::vector<Range>& buckets) {
  for (std::size_t last = matrices.size(); last > 0;) {
    std::size_t first = last - 1;
    while (first > 0 && matrices[last - 1].end - matrices[first - 1].begin <= elements) --first;
    buckets.push_back({matrices[first].begin, matrices[last - 1].end});
    last = first;
  }
}

std::size_t bucket_elements(std::size_t bucket_bytes) {
  constexpr std::size_t kChunk = 4096, kChunkBytes = kChunk * sizeof(float);
  const std::size_t chunks = (bucket_bytes + kChunkBytes - 1) / kChunkBytes;
  return std::max<std::size_t>(chunks, 1) * kChunk;
}

}  // namespace

GradientBuckets::GradientBuckets(const diloco::Layout& layout, std::size_t bucket_bytes,
                                 std::vector<Range> undivided)
    : matrices_end_(intra::matrices_end(layout)), undivided_(std::move(undivided)) {
  const std::size_t elements = bucket_elements(bucket_bytes);
  const std::size_t below = undivided_.empty() ? 0 : undivided_.front().begin;
  const std::size_t above = undivided_.empty() ? 0 : undivided_.back().end;
  append_buckets(above, matrices_end_, elements, buckets_);
  append_buckets(undivided_, elements, buckets_);
  append_buckets(0, below, elements, buckets_);
  append_buckets(matrices_end_, layout.size(), elements, buckets_);
}

bool GradientBuckets::is_undivided(const Range& bucket) const {
  return !undivided_.empty() && undivided_.front().begin <= bucket.begin &&
         bucket.end <= undivided_.back().end;
}

// By where its middle lies among all of them: neighbours go to the same rank or to neighbours.
std::size_t GradientBuckets::owner(const Range& matrix, std::size_t ranks) const {
  const std::size_t begin = undivided_.front().begin, all = undivided_.back().end - begin;
  return (matrix.begin - begin + matrix.count() / 2) * ranks / all;
}

std::vector<std::size_t> GradientBuckets::counts(std::size_t index, std::size_t ranks) const {
  const Range& bucket = buckets_[index];
  if (!is_undivided(bucket)) return even_parts(bucket.count(), ranks);
  std::vector<std::size_t> counts(ranks);
  for (const Range& matrix : undivided_) {
    if (bucket.begin <= matrix.begin && matrix.end <= bucket.end)
      counts[owner(matrix, ranks)] += matrix.count();
  }
  return counts;
}

std::vector<Range> GradientBuckets::parts(std::size_t rank, std::size_t ranks) const {
  std::vector<Range> parts;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const std::vector<std::size_t> of_rank = counts(index, ranks);
    const std::size_t begin = buckets_[index].begin + begin_of_part(of_rank, rank);
    if (of_rank[rank] > 0) parts.push_back({begin, begin + of_rank[rank]});
  }
  std::ranges::sort(parts, {}, &Range::begin);
  return parts;
}

void GradientBuckets::complete_bucket(Collective& group, std::size_t index,
                                      std::span<float> elements) const {
  group.all_gather_parts(elements.first(buckets_[index].count()), counts(index, group.size()));
}

void GradientBuckets::complete(Collective& group, std::span<float> flat,
                               const Range& left_out) const {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const Range& bucket = buckets_[index];
    const bool is_after = bucket.begin >= left_out.end;
    if (!is_after && bucket.begin >= left_out.begin) continue;
    complete_bucket(group, index, flat.subspan(bucket.begin - (is_after ? left_out.count() : 0)));
  }
}

void GradientBuckets::complete_undivided(Collective& group, std::span<float> flat) const {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    if (is_undivided(buckets_[index]))
      complete_bucket(group, index, flat.subspan(buckets_[index].begin));
  }
}

}  // namespace causeway::intra
