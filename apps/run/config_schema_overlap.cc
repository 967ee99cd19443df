// The keys that hide the exchange behind training, and shorten rounds while it warms up.
#include "apps/run/config_schema.h"
#include "apps/run/key_builders.h"

namespace causeway::run {

using C = Keys<Config>;
using R = Keys<RegionConfig>;

void add_overlap_keys(std::vector<Key<Config>>& keys) {
  using Variant = diloco::OverlapOptions::Variant;
  using diloco::FragmentOrder;
  keys.push_back(shared(C::choice<Variant>(
      "sync.variant", [](auto& c) -> auto& { return c.overlap.variant; },
      {{"synchronous", Variant::synchronous},
       {"streaming", Variant::streaming},
       {"delayed", Variant::delayed},
       {"eager", Variant::eager}},
      "How the exchange is hidden. synchronous: not. streaming: a part of the model at a time, and "
      "training goes on for overlap_steps. delayed, eager: a whole round late; eager looks ahead "
      "by the region's own share. docs/overlap.md.")));
  keys.push_back(shared(C::integer(
      "sync.fragments", "", [](auto& c) -> auto& { return c.overlap.fragments; }, 1, 1024,
      "Parts of the model that take turns, each exchanged every k steps; a divisor of k. For "
      "streaming.")));
  keys.push_back(shared(C::choice<FragmentOrder>(
      "sync.fragment_order", [](auto& c) -> auto& { return c.overlap.order; },
      {{"strided", FragmentOrder::strided}, {"sequential", FragmentOrder::sequential}},
      "Layers of a fragment: every P-th, or neighbours.")));
  keys.push_back(C::integer(
      "sync.overlap_steps", "steps", [](auto& c) -> auto& { return c.sync.overlap_steps; }, 0,
      1'000'000,
      "Inner steps taken while a round is under way, at most k / fragments. For streaming; delayed "
      "and eager take those of a whole round."));
  keys.push_back(shared(C::number(
      "sync.mixing", [](auto& c) -> auto& { return c.overlap.mixing; }, {0, 1},
      "When a fragment's exchange ends: weight of what the region contributed against the shared "
      "parameters, to which the steps taken meanwhile are added. For streaming.")));
  keys.push_back(shared(C::integer(
      "sync.warmup_k", "steps", [](auto& c) -> auto& { return c.sync.warmup_k; }, 0, 1'000'000,
      "K during inner.warmup_steps, at most k and a multiple of fragments. 0: k.")));
}

Key<RegionConfig> overlap_key() {
  return defaults_to("sync.overlap_steps",
                     R::integer(
                         "regions.overlap_steps", "steps",
                         [](auto& r) -> auto& { return r.overlap_steps; }, -1, 1'000'000,
                         "Of this region, in the place of sync.overlap_steps, for one whose links "
                         "are slow. -1: that."));
}

}  // namespace causeway::run
