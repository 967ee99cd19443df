// The keys of training inside a region.
#include "apps/run/config/config_schema.h"
#include "apps/run/config/key_builders.h"

namespace causeway::run {

using C = Keys<Config>;

namespace {

constexpr double kMebi = 1024.0 * 1024.0;

void add_checkpoint_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(of_region(C::integer(
      "train.checkpoint_rounds", "rounds",
      [](auto& c) -> auto& { return c.train.checkpoint_rounds; }, 1, 1'000'000,
      "Rounds (of every fragment) between two saved training states and snapshots. 1: a worker "
      "that is killed goes on as if it had not been (docs/checkpoints.md).")));
  keys.push_back(of_built_in_trainer(of_process(C::integer(
      "train.checkpoints_kept", "", [](auto& c) -> auto& { return c.train.checkpoints_kept; }, 1,
      1000,
      "Training states kept on disk, the newest included. If one is damaged, the one before it is "
      "used."))));
}

void add_rank_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(of_built_in_trainer(of_region(C::boolean(
      "train.shard_optimizer", [](auto& c) -> auto& { return c.train.shard_optimizer; },
      "Each worker of a region keeps the optimizer's moments only of its own part of the "
      "parameters, which saves memory. When a worker is lost, its region goes back to its last "
      "checkpoint."))));
  keys.push_back(of_built_in_trainer(of_process(seconds_key(
      "train.rank_deadline_s", [](auto& c) -> auto& { return c.train.rank_deadline; },
      "If the other workers of a region wait longer than this for one worker in one operation, "
      "they take it for hung and go on without it. It must be longer than writing a state of 64 "
      "MiB takes.",
      0.1))));
  keys.push_back(of_process(seconds_key(
      "train.rank_wait_s", [](auto& c) -> auto& { return c.train.rank_wait; },
      "How long the workers of a region wait for missing ones when they gather, before they go on "
      "without them. A worker that comes later joins at the end of the round.",
      0.1)));
}

void add_device_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(of_built_in_trainer(of_process(C::boolean(
      "train.bind_to_numa", [](auto& c) -> auto& { return c.binds_to_numa; },
      "On a host with several NUMA nodes a worker runs on the cores of its GPU's node, and workers "
      "without GPU take turns in the nodes, unless its cores were chosen when it was started."))));
  keys.push_back(of_built_in_trainer(of_process(C::integer(
      "train.recompute", "", [](auto& c) -> auto& { return c.train.recompute; }, 0, 2,
      "On GPUs, what the backward pass computes again instead of keeping, to save memory. 0: "
      "nothing. 1: the activation function's output. 2: the norms' outputs too."))));
  keys.push_back(of_built_in_trainer(of_process(C::boolean(
      "train.offload_outer_state", [](auto& c) -> auto& { return c.train.offload_outer_state; },
      "On GPUs: anchor, outer momentum and residual stay in the host's memory, and pass through "
      "the GPU's in outer rounds, to save 12 bytes a parameter there (16 where the exchange "
      "overlaps)."))));
  keys.push_back(of_built_in_trainer(of_process(C::boolean(
      "train.time_products", [](auto& c) -> auto& { return c.train.time_products; },
      "On GPUs: the first start that needs a product of matrices on this machine measures which of "
      "cuBLASLt's kernels is the fastest for it, and notes that in causeway/products of the user's "
      "cache (docs/gpu.md)."))));
  keys.push_back(of_built_in_trainer(of_region(C::boolean(
      "train.stochastic_rounding", [](auto& c) -> auto& { return c.train.stochastic_rounding; },
      "On GPUs with model.precision bf16: the weights that are multiplied are rounded from the "
      "fp32 ones up or down at random, so that the mean is exact."))));
}

}  // namespace

void add_inner_keys(std::vector<Key<Config>>& keys) {
  using Optimizer = intra::InnerOptions::Optimizer;
  using Schedule = intra::InnerOptions::Schedule;
  keys.push_back(of_run(C::choice<Optimizer>(
      "inner.optimizer", [](auto& c) -> auto& { return c.inner.optimizer; },
      {{"adamw", Optimizer::adamw}, {"muon", Optimizer::muon}},
      "adamw: AdamW steps everything. muon: Muon steps the matrices of the transformer's blocks, "
      "and AdamW the embeddings, the head and all vectors. It loses far less with a large K, and "
      "costs the same for each step, however few tokens the step has: see docs/learning.md.")));
  keys.push_back(of_run(C::number(
      "inner.lr", [](auto& c) -> auto& { return c.inner.lr; }, {0, 100, true},
      "Highest learning rate, of AdamW and of Muon.")));
  keys.push_back(of_run(C::number(
      "inner.momentum", [](auto& c) -> auto& { return c.inner.momentum; }, {0, 1, false, true},
      "Decay of Muon's momentum.")));
  keys.push_back(of_run(C::number(
      "inner.lr_final_fraction", [](auto& c) -> auto& { return c.inner.lr_final_fraction; }, {0, 1},
      "Fraction of lr reached at the last step by the linear and cosine schedules.")));
  keys.push_back(of_run(C::choice<Schedule>(
      "inner.schedule", [](auto& c) -> auto& { return c.inner.schedule; },
      {{"cosine", Schedule::cosine},
       {"linear", Schedule::linear},
       {"constant", Schedule::constant}},
      "Shape of the learning rate after warm-up.")));
  keys.push_back(of_any_trainer(of_run(C::integer(
      "inner.warmup_steps", "steps", [](auto& c) -> auto& { return c.inner.warmup_steps; }, 0,
      kAnyInteger, "Steps over which the learning rate rises from 0."))));
  keys.push_back(of_run(C::number(
      "inner.beta1", [](auto& c) -> auto& { return c.inner.beta1; }, {0, 1, false, true},
      "Decay of AdamW's first moment.")));
  keys.push_back(of_run(C::number(
      "inner.beta2", [](auto& c) -> auto& { return c.inner.beta2; }, {0, 1, false, true},
      "Decay of AdamW's second moment.")));
  keys.push_back(of_run(C::number(
      "inner.epsilon", [](auto& c) -> auto& { return c.inner.epsilon; }, {1e-30, 1},
      "Added to the root of the second moment.")));
  keys.push_back(of_run(C::number(
      "inner.weight_decay", [](auto& c) -> auto& { return c.inner.weight_decay; }, {0, 100},
      "Decoupled weight decay, on matrices only.")));
  keys.push_back(of_run(C::number(
      "inner.clip_norm", [](auto& c) -> auto& { return c.inner.clip_norm; }, {0, 1e9},
      "Largest global norm of the gradient. 0: no clipping.")));
}

void add_train_keys(std::vector<Key<Config>>& keys) {
  using Precision = intra::ModelOptions::Precision;
  keys.push_back(of_built_in_trainer(of_run(C::integer(
      "train.batch", "sequences", [](auto& c) -> auto& { return c.train.batch; }, 1, 1 << 24,
      "Sequences per region and inner step, over all its workers."))));
  keys.push_back(of_built_in_trainer(of_region(C::integer(
      "train.micro_batches", "", [](auto& c) -> auto& { return c.train.micro_batches; }, 1, 65'536,
      "Parts into which a worker cuts its share of the batch, to save memory."))));
  keys.push_back(required(of_run(C::integer(
      "train.steps", "steps", [](auto& c) -> auto& { return c.train.steps; }, 1, kAnyInteger,
      "Inner steps of the whole run; a multiple of k."))));
  keys.push_back(required(of_run(C::integer(
      "train.k", "steps", [](auto& c) -> auto& { return c.train.k; }, 1, 1'000'000,
      "Inner steps between two exchanges over the WAN."))));
  keys.push_back(of_built_in_trainer(of_region(C::integer(
      "train.validation_sequences", "sequences",
      [](auto& c) -> auto& { return c.train.validation_sequences; }, 1, 1 << 24,
      "Sequences evaluated for the validation loss, spread evenly over the validation part."))));
  keys.push_back(of_built_in_trainer(of_region(C::integer(
      "train.validate_rounds", "rounds", [](auto& c) -> auto& { return c.train.validate_rounds; },
      0, 1'000'000,
      "Rounds (of every fragment) between two validations of what all regions agreed on: on "
      "data.validation_files if there are any, otherwise on the validation part of the region's "
      "own data. 0: at the end only."))));
  add_checkpoint_keys(keys);
  keys.push_back(of_built_in_trainer(of_process(C::integer(
      "train.timed_step_ms", "ms", [](auto& c) -> auto& { return c.train.timed_step_ms; }, 0,
      3'600'000,
      "Above 0: a step computes nothing and only waits this long. For measuring utilisation; "
      "reports say so."))));
  keys.push_back(of_built_in_trainer(of_region(C::number_as(
      "train.bucket_mib", "MiB",
      [](const Config& c) { return double(c.train.bucket_bytes) / kMebi; },
      [](Config& c, double mib) {
        c.train.bucket_bytes = static_cast<std::size_t>(std::llround(mib * kMebi));
      },
      {0.001, 16'384}, "Gradient bytes gathered before they are reduced inside the region."))));
  keys.push_back(of_built_in_trainer(of_region(C::choice<Precision>(
      "train.bucket_precision", [](auto& c) -> auto& { return c.train.bucket_precision; },
      {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}},
      "How gradients travel between the workers of a region. bf16: half the bytes; each worker's "
      "gradient is rounded once, and so is the sum, which is computed in fp32 "
      "(docs/ranks.md#gradients-in-bf16). Without effect on a region of one worker, and on the "
      "synchronous baseline."))));
  add_rank_keys(keys);
  add_device_keys(keys);
  keys.push_back(of_process(C::text(
      "checkpoint.after", [](auto& c) -> auto& { return c.checkpoint_after; },
      "a command for /bin/sh, or empty",
      "A region's coordinator starts this command for each new snapshot that the run confirmed, to "
      "copy it elsewhere, for example to an object store (docs/checkpoints.md).")));
}

}  // namespace causeway::run
