#include "apps/run/replay/retraining.h"

#include <omp.h>

#include <system_error>

#include "diloco/region/run_history.h"
#include "intra/base/error.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_round.h"
#include "intra/worker/make_inner_trainer.h"

namespace causeway::run {

diloco::Train order_of(const ReplaySource& source, const std::string& region, diloco::Round round) {
  const Config& config = source.config();
  diloco::DataPlan plan(region, config.data.per_region);
  plan.begin(source.first_members());
  diloco::Train order{.round = round, .k = pace(config).round_steps(0)};
  for (diloco::Round before = 0; before < round; ++before) {
    const diloco::CommitRecord& record = source.record(before);
    order.schedule_step +=
        before == 0 ? pace(config).round_steps(0) : source.record(before - 1).next_k;
    plan.add(record);
    order.k = record.next_k;
  }
  order.share = plan.share().value_or(diloco::DataShare{});
  if (round == 0) return order;
  for (const diloco::Standing& standing : source.record(round - 1).standings) {
    if (standing.region == region && standing.next_k > 0) order.k = standing.next_k;
  }
  return order;
}

Retraining::Retraining(const Config& config, const std::string& region,
                       const std::filesystem::path& directory, const diloco::Layout& layout)
    : options_(worker_options(config, region, 0, directory)),
      layout_(layout),
      state_(options_.inner, layout, intra::kept_by(options_)),
      alone_(intra::make_solo_collective()),
      trainer_(intra::make_inner_trainer(options_)) {}

Retraining::Result Retraining::train(const intra::RoundProof& proof, const diloco::Train& order,
                                     const diloco::Digest& base) {
  const std::uint32_t every = options_.train.prove_steps;
  const auto samples = static_cast<std::uint64_t>(options_.train.batch);
  intra::read_proof_state(intra::proof_state_file(options_.directory, order.round), state_);
  omp_set_num_threads(proof.threads);
  state_.optimizer_steps = proof.leaves.front().optimizer_steps;
  intra::ProofLeaf first{.data_cursor = order.data_cursor};
  first.residual = diloco::merkle_root(diloco::merkle_leaves(state_.residual));
  Result result{.leaves = {leaf_after(first, 0, 0, state_)}, .payload = {}};
  const auto same = [&] { return result.leaves.back() == proof.leaves[result.leaves.size() - 1]; };
  if (!same()) return result;
  state_.anchor = state_.params;
  state_.version = order.round;
  state_.digest = base;
  state_.in_flight.clear();
  state_.work = {.data_cursor = order.data_cursor};
  trainer_->join(*alone_, state_);
  for (std::uint32_t step = 0; step < order.k && same(); ++step) {
    const bool finite =
        take({order.schedule_step + step, order.data_cursor + step * samples, order.share});
    if ((step + 1) % every == 0 || step + 1 == order.k || !finite)
      result.leaves.push_back(leaf_after(result.leaves.back(), step + 1, samples, state_));
  }
  trainer_->leave();
  if (same()) result.payload = payload_of(order.k);
  return result;
}

// False: it led to no numbers, and the leaf after it is another one than the region's.
bool Retraining::take(const intra::InnerStep& step) {
  try {
    trainer_->step(step, false);
    return true;
  } catch (const std::system_error& error) {
    if (error.code() != intra::Errc::not_finite) throw;
    return false;
  }
}

std::span<const std::byte> Retraining::payload_of(std::uint32_t steps) {
  const intra::OuterRound round({.region = options_.region,
                                 .region_index = static_cast<std::uint32_t>(options_.region_index),
                                 .seed = options_.train.seed},
                                options_.codec, options_.outer, options_.overlap, layout_);
  const auto samples = static_cast<std::uint64_t>(options_.train.batch);
  state_.work.steps = steps;
  round.encode(*alone_, {samples, samples * static_cast<std::uint64_t>(options_.model.context)},
               state_);
  return state_.own(0)->payload.bytes();
}

}  // namespace causeway::run
