// How regions synchronise, what they keep of it, and over which links.
#include <cmath>

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

// How the exchange hides behind training, and rounds that are shorter while it warms up.
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
      "eager: it goes on for a whole round; eager looks ahead by as much as the last record "
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
      "When a fragment's exchange ends, the region's contribution is mixed, with this weight, with "
      "the shared parameters, and the steps taken meanwhile are added. For streaming.")));
  keys.push_back(of_run(C::integer(
      "sync.warmup_k", "steps", [](auto& c) -> auto& { return c.sync.warmup_k; }, 0, 1'000'000,
      "K during inner.warmup_steps, at most k and a multiple of fragments. 0: k.")));
  add_online_k_keys(keys);
}

}  // namespace

void add_sync_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(defaults_to(
      "the first region",
      of_run(C::text(
          "sync.founder", [](auto& c) -> auto& { return c.sync.founder; }, "the name of a region",
          "The region that founds a run under --auto and `causeway simulate`. The latter shows its "
          "files."))));
  keys.push_back(of_process(C::integer(
      "sync.contributions_min", "regions",
      [](auto& c) -> auto& { return c.sync.rules.contributions_min; }, 0, 1024,
      "Fewest regions a round may close with. 0: a majority; with a witness, as many as make a "
      "majority together with it (one of two).")));
  keys.push_back(of_run(C::integer(
      "sync.staleness_max", "rounds", [](auto& c) -> auto& { return c.sync.rules.staleness_max; },
      0, 16,
      "Rounds that a contribution may come late and still be listed, with weight x (1 + "
      "rounds)^-0.5. 0: a contribution that misses its round goes back into the residual.")));
  keys.push_back(of_run(C::choice<diloco::ExchangeKind>(
      "sync.exchange", [](auto& c) -> auto& { return c.sync.rules.exchange; },
      {{"full", diloco::ExchangeKind::full},
       {"sharded", diloco::ExchangeKind::sharded},
       {"auto", diloco::ExchangeKind::automatic}},
      "What regions send each other in a round (docs/sharded-rounds.md). full: every "
      "payload to every region. sharded: shards of payloads to the regions that sum them, and the "
      "sums to every region, so that the bytes per region do not grow with the number of regions; "
      "no contribution is listed late. auto: sharded from five listed regions on, if the codecs "
      "are dense and sync.variant is not eager; the first round is full.")));
  keys.push_back(of_run(C::boolean(
      "sync.speed_adaptive_k", [](auto& c) -> auto& { return c.sync.rules.speed_adaptive_k; },
      "Slower regions take fewer inner steps, so that all arrive together (DyLU).")));
  keys.push_back(of_process(seconds_key(
      "sync.election_timeout_s", [](auto& c) -> auto& { return c.sync.rules.election; },
      "If nothing is heard from the leader for this long, up to twice as long, another one is "
      "elected. About ten times the longest round trip is right.",
      0.05, 3600)));
  keys.push_back(of_process(seconds_key(
      "sync.grace_min_s", [](auto& c) -> auto& { return c.sync.rules.grace_min; },
      "Shortest time a round waits for the last regions.")));
  keys.push_back(of_process(seconds_key(
      "sync.grace_max_s", [](auto& c) -> auto& { return c.sync.rules.grace_max; },
      "Longest time a round waits for the last regions.")));
  keys.push_back(of_process(seconds_key(
      "sync.start_wait_s", [](auto& c) -> auto& { return c.sync.rules.start_wait; },
      "Longest time that the first round waits for regions whose worker has not attached yet, "
      "and that a worker waits while it is not clear which regions read other data.")));
  keys.push_back(of_process(C::number_as(
      "sync.spool_gib", "GiB",
      [](const Config& c) { return double(c.sync.spool_bytes_max) / kGibi; },
      [](Config& c, double gib) {
        c.sync.spool_bytes_max = static_cast<std::uint64_t>(std::llround(gib * kGibi));
      },
      {0.001, 1 << 20}, "Disk space for payloads and snapshots of each region.")));
  add_overlap_keys(keys);
}

Key<RegionConfig> overlap_key() {
  return defaults_to("sync.overlap_steps",
                     R::integer(
                         "regions.overlap_steps", "steps",
                         [](auto& r) -> auto& { return r.overlap_steps; }, -1, 1'000'000,
                         "This region's own value of sync.overlap_steps, for a region whose links "
                         "are slow. -1: sync.overlap_steps."));
}

void add_ledger_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(of_process(C::choice<bool>(
      "ledger.keep", [](auto& c) -> auto& { return c.keeps_all; },
      {{"needed", false}, {"all", true}},
      "needed: the ledger, and payloads and snapshots as long as the run needs them. all: every "
      "payload that counted and every state that the region began from as well, in archive/ of "
      "its directory, so that `causeway replay` can compute the whole run again "
      "(docs/audit.md).")));
  keys.push_back(of_built_in_trainer(of_run(C::integer(
      "ledger.prove_steps", "steps", [](auto& c) -> auto& { return c.train.prove_steps; }, 0,
      1'000'000,
      "Inner steps between two hashes of a region's training state. Their root is in the record of "
      "each contribution, so that `causeway replay --inner` can check that the region trained "
      "(docs/proofs.md). 0: none. Needs sync.variant synchronous, regions of one worker on a CPU, "
      "ledger.keep all, and the built-in trainer."))));
  keys.push_back(of_built_in_trainer(of_process(C::integer(
      "ledger.proofs_kept", "rounds", [](auto& c) -> auto& { return c.train.proofs_kept; }, 1,
      1'000'000,
      "With ledger.prove_steps: for how many of the newest rounds a region keeps the state with "
      "which the round began, so that they can be checked: 16 bytes a parameter for each."))));
}

void add_link_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(of_process(C::integer(
      "links.connections", "", [](auto& c) -> auto& { return c.links.connections; }, 0, 64,
      "Data connections to each peer. 0: 4, or 32 where TCP slows down after every pause.")));
  keys.push_back(of_process(C::text(
      "links.congestion_control", [](auto& c) -> auto& { return c.links.congestion_control; },
      "auto, or a name of the kernel's",
      "TCP's congestion control. auto: bbr if the kernel allows it, otherwise the kernel's "
      "default.")));
  keys.push_back(of_process(defaults_to(
      "none",
      C::text(
          "links.prices", [](auto& c) -> auto& { return c.links.prices; }, "a file, or empty",
          "Prices of traffic between regions, as `causeway tune --prices` takes them: the "
          "cost is shown in the metrics and by `causeway status` (docs/operate.md)."))));
  keys.push_back(of_process(C::number(
      "links.followers_mbit_s", [](auto& c) -> auto& { return c.links.followers_mbit_s; },
      {0, 100'000},
      "Most that this region sends to all its followers together (docs/follow.md), so that rounds "
      "do not wait for readers. 0: it serves none.")));
  using inter::Shape;
  keys.push_back(of_process(C::choice<std::optional<Shape>>(
      "links.topology", [](auto& c) -> auto& { return c.links.topology; },
      {{"auto", std::nullopt},
       {"direct", Shape::direct},
       {"ring", Shape::ring},
       {"relay", Shape::relay}},
      "How payloads travel between regions. auto: as the measured links suggest; the log says "
      "which way and the time predicted.")));
}

void add_budget_keys(std::vector<Key<Config>>& keys) {
  using Action = diloco::EgressBudget::Action;
  keys.push_back(of_run(C::number(
      "budget.per_day", [](auto& c) -> auto& { return c.budget.per_day; }, {0},
      "Most that egress of all regions together may cost in a day (UTC), in the currency of "
      "links.prices. 0: no limit.")));
  keys.push_back(of_run(C::number(
      "budget.per_month", [](auto& c) -> auto& { return c.budget.per_month; }, {0},
      "Likewise in a calendar month (UTC). 0: no limit.")));
  keys.push_back(of_run(C::number(
      "budget.total", [](auto& c) -> auto& { return c.budget.total; }, {0},
      "Likewise in the whole run. 0: no limit.")));
  keys.push_back(of_run(C::choice<Action>(
      "budget.action", [](auto& c) -> auto& { return c.budget.action; },
      {{"warn", Action::warn}, {"stretch-k", Action::stretch_k}, {"pause", Action::pause}},
      "What is done so that the limits hold (docs/operate.md). warn: nothing, but the log and "
      "`causeway status` say so. stretch-k: rounds get longer, so that the money lasts. pause: "
      "rounds stay as they are until the money is spent; then the regions train alone until there "
      "is new money.")));
  keys.push_back(of_run(C::integer(
      "budget.k_max", "steps", [](auto& c) -> auto& { return c.budget.k_max; }, 0, 8'000'000,
      "Largest K that the budget may ask for, a multiple of fragments; beyond it a limit is "
      "exceeded, with a warning. 0: as long as the limits need.")));
}

}  // namespace causeway::run
