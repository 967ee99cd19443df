// Every job of a training step: what one kernel does, as data. Two kinds:
//   count() elements, element(i) for each on its own;
//   `rows` rows, row(group, memory, r) for each by a group of kLanes lanes that share Memory.
// A group's operations are collective; f(lane) is what one lane does, and may not read what another
// lane writes in the same operation:
//   each(f)          f(lane)
//   sum(f), max(f)   over f(lane), the same for every lane
// and PerLane<T> is a variable that each lane has of its own, as of(lane), zero at first.
#pragma once

#include <variant>

#include "compression/cuda/chunk_jobs.h"
#include "intra/cuda/jobs/job_attention.h"
#include "intra/cuda/jobs/job_buckets.h"
#include "intra/cuda/jobs/job_classifier.h"
#include "intra/cuda/jobs/job_embedding.h"
#include "intra/cuda/jobs/job_norm.h"
#include "intra/cuda/jobs/job_optimizer.h"
#include "intra/cuda/jobs/job_outer.h"
#include "intra/cuda/jobs/job_pointwise.h"

namespace causeway::intra::cuda {

template <typename... Others>
struct JobList {
  template <template <typename> class... Jobs>
  using With = std::variant<Jobs<float>..., Jobs<Bfloat16>..., Others...>;
};

using Job = JobList<FoldStripes, FoldTokens, AddLosses, SquareSums, Clip, MuonMomentum>::With<
    AddNorm, NormBackward, NormGradient, ColumnSums, NormColumnSums, Gelu, GeluGradient, Swiglu,
    SwigluGradient, Embed, Drop, Rotate, Round, Classify, TokenGradient, PositionGradient,
    AdamWStep, MuonScale, MuonMix, MuonStep, AttentionForward, AttentionQueryGradient,
    AttentionKeyGradient>;

// What queues beside the steps' do, of the same two kinds: outer rounds, and sums over ranks.
using OuterJob = std::variant<CopyPacks, TakeDelta, BlockSquares, compression::cuda::EncodeTopK,
                              compression::cuda::EncodeInt8, compression::cuda::DecodeTopK,
                              compression::cuda::DecodeInt8, StepAnchor, Mix, HashLeaves,
                              RoundBucket, AddBuckets<float>, AddBuckets<Bfloat16>>;

template <typename T>
concept ElementJob = requires(const T& job) {
  job.element(0);
};

}  // namespace causeway::intra::cuda
