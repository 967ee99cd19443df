#include "intra/collective/gradient_buckets.h"

#include <algorithm>

#include "intra/base/flat_parts.h"

namespace causeway::intra {
namespace {

// Parts of a bucket begin at whole cache lines.
constexpr std::size_t kUnit = 16;

// Cuts [begin, end) into buckets from the top down; the last may be smaller.
void append_buckets(std::size_t begin, std::size_t end, std::size_t elements,
                    std::vector<Range>& buckets) {
  while (end > begin) {
    const std::size_t cut = end - begin > elements ? end - elements : begin;
    buckets.push_back({cut, end});
    end = cut;
  }
}

std::size_t bucket_elements(std::size_t bucket_bytes) {
  constexpr std::size_t kChunk = 4096, kChunkBytes = kChunk * sizeof(float);
  const std::size_t chunks = (bucket_bytes + kChunkBytes - 1) / kChunkBytes;
  return std::max<std::size_t>(chunks, 1) * kChunk;
}

}  // namespace

GradientBuckets::GradientBuckets(const diloco::Layout& layout, std::size_t bucket_bytes)
    : matrices_end_(intra::matrices_end(layout)) {
  append_buckets(0, matrices_end_, bucket_elements(bucket_bytes), buckets_);
  append_buckets(matrices_end_, layout.size(), bucket_elements(bucket_bytes), buckets_);
}

std::vector<std::size_t> GradientBuckets::counts(std::size_t index, std::size_t ranks) const {
  const std::size_t elements = buckets_[index].count();
  const std::size_t units = elements / kUnit;
  std::vector<std::size_t> counts(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    counts[rank] = (units * (rank + 1) / ranks - units * rank / ranks) * kUnit;
  counts.back() += elements - units * kUnit;
  return counts;
}

std::vector<Range> GradientBuckets::parts(std::size_t rank, std::size_t ranks) const {
  std::vector<Range> parts;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    std::size_t begin = buckets_[index].begin;
    const std::vector<std::size_t> of_rank = counts(index, ranks);
    for (std::size_t other = 0; other < rank; ++other) begin += of_rank[other];
    if (of_rank[rank] > 0) parts.push_back({begin, begin + of_rank[rank]});
  }
  std::ranges::sort(parts, {}, &Range::begin);
  return parts;
}

void GradientBuckets::complete(Collective& group, std::span<float> flat) const {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const Range& bucket = buckets_[index];
    group.all_gather_parts(flat.subspan(bucket.begin, bucket.count()), counts(index, group.size()));
  }
}

}  // namespace causeway::intra
