// The keys that hide the exchange behind training, and shorten rounds while it warms up.
#include "apps/run/config/config_schema.h"
#include "apps/run/config/key_builders.h"

namespace causeway::run {

using C = Keys<Config>;
using R = Keys<RegionConfig>;

namespace {

void add_online_k_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(of_run(C::choice<bool>(
      "sync.k", [](auto& c) -> auto& { return c.sync.k_auto; }, {{"fixed", false}, {"auto", true}},
      "fixed: K is train.k. auto: K begins there and follows the times that rounds take; "
      "docs/choosing-k.md.")));
  keys.push_back(of_run(C::integer(
      "sync.k_min", "steps", [](auto& c) -> auto& { return c.sync.k_min; }, 0, 1'000'000,
      "Smallest K that auto takes, a multiple of fragments. 0: an eighth of train.k.")));
  keys.push_back(of_run(C::integer(
      "sync.k_max", "steps", [](auto& c) -> auto& { return c.sync.k_max; }, 0, 8'000'000,
      "Largest K that auto takes, a multiple of fragments. 0: eight times train.k.")));
  keys.push_back(of_run(C::integer(
      "sync.k_refit_rounds", "rounds", [](auto& c) -> auto& { return c.sync.k_refit_rounds; }, 5,
      1'000'000,
      "Rounds after which auto looks at K again; one change is at most twice or half.")));
  keys.push_back(of_run(C::number(
      "sync.k_price", [](auto& c) -> auto& { return c.sync.k_price; }, {0, 10},
      "For auto: lambda, the share of additional steps that an e-fold of K costs, as `causeway "
      "tune --calibrate` measures it.")));
  keys.push_back(of_run(C::integer(
      "sync.held_out_sequences", "sequences",
      [](auto& c) -> auto& { return c.sync.held_out_sequences; }, 0, 1 << 24,
      "Sequences of the validation part that every region evaluates in every round when K is auto, "
      "so that a K that makes the loss worse is given up. 0: none.")));
}

}  // namespace

void add_overlap_keys(std::vector<Key<Config>>& keys) {
  using Variant = diloco::OverlapOptions::Variant;
  using diloco::FragmentOrder;
  keys.push_back(of_run(C::choice<Variant>(
      "sync.variant", [](auto& c) -> auto& { return c.overlap.variant; },
      {{"synchronous", Variant::synchronous},
       {"streaming", Variant::streaming},
       {"delayed", Variant::delayed},
       {"eager", Variant::eager}},
      "How training goes on during the exchange (docs/overlap.md). synchronous: it waits. "
      "streaming: parts of the model take turns, and training goes on for overlap_steps. delayed, "
      "eager: it goes on for a whole round; eager looks ahead by what the last record "
      "confirmed.")));
  keys.push_back(of_run(C::integer(
      "sync.fragments", "", [](auto& c) -> auto& { return c.overlap.fragments; }, 1, 1024,
      "Parts of the model that take turns, each exchanged every k steps; a divisor of k. For "
      "streaming.")));
  keys.push_back(of_run(C::choice<FragmentOrder>(
      "sync.fragment_order", [](auto& c) -> auto& { return c.overlap.order; },
      {{"strided", FragmentOrder::strided}, {"sequential", FragmentOrder::sequential}},
      "Which layers form one of P fragments. strided: every P-th. sequential: neighbours.")));
  keys.push_back(of_process(C::integer(
      "sync.overlap_steps", "steps", [](auto& c) -> auto& { return c.sync.overlap_steps; }, 0,
      1'000'000,
      "Inner steps taken while a round is under way, at most k / fragments. For streaming; delayed "
      "and eager take those of a whole round.")));
  keys.push_back(of_run(C::number(
      "sync.mixing", [](auto& c) -> auto& { return c.overlap.mixing; }, {0, 1},
      "When a fragment's exchange ends, what the region contributed is mixed, with this weight, "
      "with the shared parameters, and the steps taken meanwhile are added. For streaming.")));
  keys.push_back(of_run(C::integer(
      "sync.warmup_k", "steps", [](auto& c) -> auto& { return c.sync.warmup_k; }, 0, 1'000'000,
      "K during inner.warmup_steps, at most k and a multiple of fragments. 0: k.")));
  add_online_k_keys(keys);
}

Key<RegionConfig> overlap_key() {
  return defaults_to("sync.overlap_steps",
                     R::integer(
                         "regions.overlap_steps", "steps",
                         [](auto& r) -> auto& { return r.overlap_steps; }, -1, 1'000'000,
                         "This region's own value of sync.overlap_steps, for a region whose links "
                         "are slow. -1: sync.overlap_steps."));
}

}  // namespace causeway::run
