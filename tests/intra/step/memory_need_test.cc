// Against what is really allocated.
#include "intra/step/memory_need.h"

#include <gtest/gtest.h>

#include <map>

#include "intra/model/transformer.h"
#include "intra/step/muon.h"
#include "intra/step/training_state.h"

namespace causeway::intra {
namespace {

WorkerOptions small() {
  WorkerOptions options;
  options.model = {.vocabulary = 300,
                   .context = 32,
                   .layers = 2,
                   .width = 32,
                   .heads = 4,
                   .kv_heads = 4,
                   .hidden = 128};
  options.train.batch = 32;
  options.world = 2;
  return options;
}

std::map<std::string, std::uint64_t> parts_of(const WorkerOptions& options) {
  std::map<std::string, std::uint64_t> parts;
  for (const MemoryPart& part : memory_need(options)) parts[part.name] = part.bytes;
  return parts;
}

TEST(MemoryNeed, OfTheStateIsWhatItsSpansHave) {
  const WorkerOptions options = small();
  const auto parts = parts_of(options);
  TrainingState state(options.inner, diloco::Layout(parameter_tensors(options.model)),
                      kept_by(options));
  const auto bytes = [](std::span<const float> span) { return span.size_bytes(); };
  EXPECT_EQ(parts.at("parameters"), bytes(state.params));
  EXPECT_EQ(parts.at("gradients, deltas and sums"), bytes(state.scratch));
  EXPECT_EQ(parts.at("AdamW moments"),
            bytes(state.optimizer.first_moment()) + bytes(state.optimizer.second_moment()));
  EXPECT_EQ(parts.at("anchor"), bytes(state.anchor));
  EXPECT_EQ(parts.at("outer momentum"), bytes(state.momentum));
  EXPECT_EQ(parts.at("residual"), bytes(state.residual));
}

// Nor does its state have it.
TEST(MemoryNeed, HasNothingThatTheRunDoesNotUse) {
  WorkerOptions options = small();
  const auto state = [&] {
    return TrainingState(options.inner, diloco::Layout(parameter_tensors(options.model)),
                         kept_by(options));
  };
  options.codec.feedback = false;
  EXPECT_FALSE(parts_of(options).contains("residual"));
  EXPECT_TRUE(state().residual.empty());
  EXPECT_FALSE(state().anchor.empty());
  options.train.timed_step_ms = 1;
  EXPECT_FALSE(parts_of(options).contains("AdamW moments"));
  EXPECT_TRUE(state().optimizer.first_moment().empty());
  EXPECT_TRUE(state().optimizer.second_moment().empty());
  options.synchronous = WorkerOptions::Synchronous{.rank = 0, .world = 2, .generation = "1"};
  EXPECT_FALSE(parts_of(options).contains("anchor"));
  EXPECT_TRUE(state().anchor.empty());
  EXPECT_TRUE(state().momentum.empty());
}

// Of a synchronous run only a region that is cut off has it.
TEST(MemoryNeed, TellsWhenOpenWorkHasAPlaceOfItsOwn) {
  constexpr const char* kMark = "parameters where open work began";
  WorkerOptions options = small();
  EXPECT_FALSE(parts_of(options).contains(kMark));
  options.region_count = 2;
  const std::string text = describe(memory_need(options));
  EXPECT_NE(text.find(std::string("; while this region is cut off from the others, ") + kMark),
            std::string::npos)
      << text;
  options.overlap.variant = diloco::OverlapOptions::Variant::eager;
  EXPECT_EQ(describe(memory_need(options)).find("cut off"), std::string::npos);
  EXPECT_TRUE(parts_of(options).contains(kMark));
}

TEST(MemoryNeed, OfAPayloadIsOfTheLargestFragment) {
  WorkerOptions options = small();
  options.world = 1;
  const std::uint64_t whole = parts_of(options).at("own payload");
  options.overlap.variant = diloco::OverlapOptions::Variant::streaming;
  options.overlap.fragments = 2;
  EXPECT_LT(parts_of(options).at("own payload"), 3 * whole / 4);
}

// A region on a GPU has its moments on the host for checkpoints, but multiplies on the GPU.
TEST(MemoryNeed, OfMuonHasProductsWhereTheyAreComputed) {
  WorkerOptions options = small();
  options.inner.optimizer = InnerOptions::Optimizer::muon;
  TrainingState state(options.inner, diloco::Layout(parameter_tensors(options.model)));
  const std::uint64_t moments =
      state.optimizer.first_moment().size_bytes() + state.optimizer.second_moment().size_bytes();
  EXPECT_EQ(parts_of(options).at("moments of Muon and AdamW"), moments);
  EXPECT_GT(parts_of(options).at("Muon's products"), 0);
  options.train.device = Device::cuda;
  EXPECT_EQ(parts_of(options).at("moments of Muon and AdamW"), moments);
  EXPECT_FALSE(parts_of(options).contains("Muon's products"));
}

class MuonsProducts : public testing::TestWithParam<Products> {};

TEST_P(MuonsProducts, TakeWhatAStepAllocates) {
  WorkerOptions options = small();
  options.inner.optimizer = InnerOptions::Optimizer::muon;
  const diloco::Layout layout(parameter_tensors(options.model));
  Muon muon(options.inner, layout, GetParam());
  AdamW moments(options.inner, layout);
  std::vector<float> params(layout.size(), 1.0F);
  const std::vector<float> gradients(layout.size(), 1.0F);
  const std::vector<Range> everything{{0, layout.size()}};
  muon.step(1, 1, everything, moments, params, gradients);
  EXPECT_EQ(muon.allocated_bytes(), Muon::working_bytes(options.inner, layout, GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Products, MuonsProducts,
                         testing::Values(Products::fp32, Products::bf16_emulated));

// Two numbers to a word: the largest bucket, the ranks' parts of it, and the sums twice as they are
// gathered.
TEST(MemoryNeed, OfBucketsInBf16IsOfTheLargest) {
  WorkerOptions options = small();
  constexpr const char* kBuckets = "gradient buckets in bf16";
  options.train.bucket_bytes = 4 * 8192;
  EXPECT_FALSE(parts_of(options).contains(kBuckets));
  options.train.bucket_precision = ModelOptions::Precision::bf16;
  EXPECT_EQ(parts_of(options).at(kBuckets), 4 * 2 * 8192);
  options.train.shard_optimizer = true;
  EXPECT_EQ(parts_of(options).at(kBuckets), 2 * 2 * 8192);
  options.world = 1;
  EXPECT_FALSE(parts_of(options).contains(kBuckets));
  options.world = 2;
  options.train.device = Device::cuda;
  EXPECT_FALSE(parts_of(options).contains(kBuckets));
}

// One micro-batch of a rank, and the largest batch of an evaluation.
TEST(MemoryNeed, OfActivationsIsOfTheMostSequencesAtOnce) {
  WorkerOptions options = small();
  EXPECT_TRUE(parts_of(options).contains("activations of 16 sequences"));
  options.train.micro_batches = 4;
  EXPECT_TRUE(parts_of(options).contains("activations of 8 sequences"));
  options.train.validation_sequences = 2;
  EXPECT_TRUE(parts_of(options).contains("activations of 4 sequences"));
}

class WorkingBytes : public testing::TestWithParam<ModelOptions::Precision> {};

TEST_P(WorkingBytes, AreWhatAStepAllocates) {
  for (const auto family : {ModelOptions::Family::gpt2, ModelOptions::Family::llama}) {
    ModelOptions options = small().model;
    options.family = family;
    options.precision = GetParam();
    Transformer model(options);
    std::vector<float> params(model.layout().size()), gradients(model.layout().size());
    model.initialise(1, params);
    const std::vector<std::int32_t> tokens(3 * 32, 7);
    model.train({tokens, tokens, 3, 32}, {}, 1, params, gradients, {});
    EXPECT_EQ(model.allocated_bytes(), working_bytes(options, 3, 32));
    EXPECT_LT(model.allocated_bytes(), working_bytes(options, 4, 32));
  }
}
INSTANTIATE_TEST_SUITE_P(Precisions, WorkingBytes,
                         testing::Values(ModelOptions::Precision::fp32,
                                         ModelOptions::Precision::bf16));

TEST(MemoryNeed, OfTheBaselineHasNoPayloads) {
  WorkerOptions options = small();
  EXPECT_GT(parts_of(options).at("own payload"), 0U);
  options.synchronous = WorkerOptions::Synchronous{.rank = 0, .world = 2, .generation = "1"};
  EXPECT_FALSE(parts_of(options).contains("own payload"));
}

TEST(MemoryNeed, OfABaselineThatComputesForAllRegionsIsOfAllBatches) {
  WorkerOptions options = small();
  options.region_count = 5;
  options.train.batch = 48;
  options.synchronous = WorkerOptions::Synchronous{.rank = 0, .world = 1, .generation = "1"};
  EXPECT_TRUE(parts_of(options).contains("activations of 240 sequences"));
}

TEST(MemoryNeed, IsOneLineInMebibytes) {
  EXPECT_EQ(describe({{"parameters", 3U << 20}, {"residual", (1U << 20) + 1}}),
            "memory: at most 5 MiB of this host: parameters 3 MiB, residual 2 MiB");
}

}  // namespace
}  // namespace causeway::intra
