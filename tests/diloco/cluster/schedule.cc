#include "tests/diloco/cluster/schedule.h"

#include <algorithm>
#include <map>
#include <random>

#include "tests/diloco/cluster/cluster_parts.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Time kHealedBound = minutes{60};

Fault::Kind random_kind(std::mt19937_64& random) {
  // How often each comes.
  static const std::vector<std::pair<Fault::Kind, int>> kWeights{{Fault::Kind::kill_coordinator, 4},
                                                                 {Fault::Kind::kill_worker, 3},
                                                                 {Fault::Kind::kill_region, 3},
                                                                 {Fault::Kind::wipe, 2},
                                                                 {Fault::Kind::cut, 4},
                                                                 {Fault::Kind::cut_one_way, 2},
                                                                 {Fault::Kind::isolate, 2},
                                                                 {Fault::Kind::pause, 3},
                                                                 {Fault::Kind::jump_clock, 1},
                                                                 {Fault::Kind::slow_link, 2},
                                                                 {Fault::Kind::corrupt_state, 1},
                                                                 {Fault::Kind::heal, 5}};
  int total = 0;
  for (const auto& [kind, weight] : kWeights) total += weight;
  int drawn = std::uniform_int_distribution<int>(0, total - 1)(random);
  for (const auto& [kind, weight] : kWeights) {
    if ((drawn -= weight) < 0) return kind;
  }
  return Fault::Kind::heal;
}

void isolate(Cluster& cluster, const Schedule& schedule, const std::string& region) {
  for (const std::string& other : schedule.options.regions) {
    if (other != region) cluster.cut(region, other);
  }
}

// Through whoever hears of it and has a leader.
void ask_for_members(Cluster& cluster, const Schedule& schedule, const Fault& fault) {
  const ChangeMember change{.member = {.region = fault.region},
                            .remove = fault.kind == Fault::Kind::leave};
  for (const std::string& region : schedule.options.regions) {
    const bool known = cluster.membership().find(fault.region) != nullptr;
    if (known == change.remove) cluster.ask(region, change);
  }
}

// Operators ask again until it is so.
void insist_on_members(Cluster& cluster, const Schedule& schedule) {
  for (const Fault& fault : schedule.faults) {
    const bool leaves = fault.kind == Fault::Kind::leave;
    if (!leaves && fault.kind != Fault::Kind::join) continue;
    const Time limit = cluster.now() + kHealedBound;
    while ((cluster.membership().find(fault.region) != nullptr) == leaves) {
      if (cluster.now() > limit) throw Violation("the members do not change");
      ask_for_members(cluster, schedule, fault);
      cluster.run_until(cluster.now() + seconds{2});
    }
  }
}

void apply(Cluster& cluster, const Schedule& schedule, const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::kill_coordinator:
      return cluster.kill_coordinator(fault.region);
    case Fault::Kind::kill_worker:
      return cluster.kill_worker(fault.region);
    case Fault::Kind::kill_region:
      return cluster.kill_region(fault.region);
    case Fault::Kind::wipe:
      return cluster.has_the_only_vote(fault.region) ? void() : cluster.wipe(fault.region);
    case Fault::Kind::damage:
      return cluster.has_the_only_vote(fault.region) ? void() : cluster.damage(fault.region);
    case Fault::Kind::damage_payload:
      return cluster.damage_payload(fault.region);
    case Fault::Kind::lose_payload:
      return cluster.lose_next_payload();
    case Fault::Kind::cut:
      return cluster.cut(fault.region, fault.other);
    case Fault::Kind::sever:
      return cluster.sever(fault.region, fault.other);
    case Fault::Kind::cut_one_way:
      return cluster.cut_one_way(fault.region, fault.other);
    case Fault::Kind::isolate:
      return isolate(cluster, schedule, fault.region);
    case Fault::Kind::pause:
      return cluster.pause(fault.region, fault.duration);
    case Fault::Kind::jump_clock:
      return cluster.jump_clock(fault.region, fault.duration);
    case Fault::Kind::slow_link:
      return cluster.slow_down(fault.region, fault.duration / 4);
    case Fault::Kind::corrupt_state:
      return cluster.corrupt_state(fault.region);
    case Fault::Kind::join:
      ask_for_members(cluster, schedule, fault);
      return cluster.add(fault.region);
    case Fault::Kind::leave:
      return ask_for_members(cluster, schedule, fault);
    case Fault::Kind::heal:
      return cluster.heal();
  }
}

void check_end(const Cluster& cluster, const Schedule& schedule) {
  const std::optional<Round> rounds = cluster.rounds_of_run();
  if (cluster.history().size() != rounds) throw Violation("rounds are missing");
  std::set<std::string> regions = cluster.membership().regions();
  std::erase_if(regions, [&](const std::string& region) {  // those that it made up never came
    const bool made_up = region.starts_with("new");
    return made_up || region == schedule.options.liar;
  });
  for (const std::string& region : regions) {
    if (cluster.version(region) != rounds) throw Violation(region + " lacks records");
    if (cluster.worker_state(region) != cluster.worker_state(*regions.begin())) {
      throw Violation(region + " ends with another state");
    }
  }
  // A region that comes back must not make the others elect anew: each fault can cost an election
  // or two, not more. A crash in the middle of something is one too.
  const bool lied_to = !schedule.options.liar.empty();
  const std::size_t faults = schedule.faults.size() + cluster.crashes();
  if (cluster.term() > (lied_to ? kTermMax / 2 : 6 + 3 * faults)) {
    throw Violation("elections do not end: term " + std::to_string(cluster.term()));
  }
}

}  // namespace

std::string describe(const Fault& fault) {
  static const std::map<Fault::Kind, std::string> kNames{
      {Fault::Kind::kill_coordinator, "kill the coordinator of"},
      {Fault::Kind::kill_worker, "kill the worker of"},
      {Fault::Kind::kill_region, "kill"},
      {Fault::Kind::wipe, "wipe"},
      {Fault::Kind::damage, "damage the ledger of"},
      {Fault::Kind::damage_payload, "damage a blob of"},
      {Fault::Kind::lose_payload, "damage every copy of a payload of the next record"},
      {Fault::Kind::cut, "cut"},
      {Fault::Kind::sever, "sever for good"},
      {Fault::Kind::cut_one_way, "cut one way"},
      {Fault::Kind::isolate, "isolate"},
      {Fault::Kind::pause, "pause"},
      {Fault::Kind::jump_clock, "jump the clock of"},
      {Fault::Kind::slow_link, "slow down what is sent by"},
      {Fault::Kind::corrupt_state, "corrupt the state of"},
      {Fault::Kind::join, "add to the run"},
      {Fault::Kind::leave, "remove from the run"},
      {Fault::Kind::heal, "heal everything"}};
  std::string text =
      std::to_string(fault.at.count() / 1000) + " ms: " + kNames.at(fault.kind) + " ";
  text += fault.region;
  if (!fault.other.empty()) text += " - " + fault.other;
  if (fault.duration > Time{0}) {
    text += " (" + std::to_string(fault.duration.count() / 1000) + " ms)";
  }
  return text;
}

namespace {

// Whatever is decided on K must be decided by all: a high price makes K fall, a low one rise, and
// the held-out losses of a Cluster, which mean nothing, take some of it back.
void adapt_k(ClusterOptions& options, std::mt19937_64& random) {
  options.rounds = 24;
  KPolicyOptions& policy = options.k_policy;
  policy.k_min = 2 * options.fragments;
  policy.k_max = 16 * options.fragments;
  policy.refit_rounds = 2 + static_cast<std::uint32_t>(random() % 3);
  policy.price = {.lambda = random() % 2 == 0 ? 0.05 : 3, .lambda_error = 0, .k_reference = 4};
  policy.overlap = {.variant = options.overlap_steps > 0 || options.fragments > 1
                                   ? tuner::Variant::streaming
                                   : tuner::Variant::synchronous,
                    .fragments = options.fragments,
                    .overlap_steps = options.overlap_steps};
}

}  // namespace

namespace {

// One link that is gone for good: the others carry what its ends say to each other. Payloads go by
// way of a region that keeps them, which a witness does not.
void sever_a_link(Schedule& schedule) {
  std::mt19937_64 random(0x5e7e4 ^ schedule.options.seed);
  const std::vector<std::string>& regions = schedule.options.regions;
  if (regions.size() < 3 || random() % 4 != 0) return;
  const std::size_t one = random() % regions.size();
  const std::size_t other = (one + 1 + random() % (regions.size() - 1)) % regions.size();
  Fault fault{.at = milliseconds{500 + random() % 20'000},
              .kind = Fault::Kind::sever,
              .region = regions[one],
              .other = regions[other]};
  const std::string& witness = schedule.options.witness;
  const bool by_witness = !witness.empty() && fault.region != witness && fault.other != witness;
  if (by_witness && regions.size() == 3) return;
  const auto place = std::ranges::upper_bound(schedule.faults, fault.at, {}, &Fault::at);
  schedule.faults.insert(place, std::move(fault));
}

}  // namespace

Schedule make_schedule(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  static const std::vector<std::string> kNames{"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  // Most schedules are of few regions, where a fault matters most.
  const std::size_t count = random() % 4 == 0 ? 5 + random() % 5 : 2 + random() % 3;
  Schedule schedule;
  schedule.options.seed = seed;
  schedule.options.regions.assign(kNames.begin(),
                                  kNames.begin() + static_cast<std::ptrdiff_t>(count));
  if (count == 3 && random() % 3 == 0) schedule.options.witness = "c";
  schedule.options.rounds = 14;
  schedule.options.staleness_max = random() % 4;
  if (random() % 3 == 0) schedule.options.fragments = 2 + static_cast<std::uint32_t>(random() % 2);
  if (random() % 3 == 0) schedule.options.overlap_steps = 2 + 2 * (random() % 2);
  if (seed % 3 == 0) schedule.options.spool_bytes = least_spool_bytes(schedule.options);
  schedule.options.crash_between_actions = random() % 2 == 0 ? 0.004 : 0;
  if (random() % 4 == 0) schedule.options.slowness["b"] = 2 + static_cast<int>(random() % 4);

  const std::vector<std::string>& regions = schedule.options.regions;
  bool wiped = false, corrupted = false;
  for (Time at = seconds{1}; at < kFaultsEnd;) {
    Fault fault{.at = at, .kind = random_kind(random)};
    fault.region = regions[random() % regions.size()];
    fault.other = regions[random() % regions.size()];
    const bool pairs = fault.kind == Fault::Kind::cut || fault.kind == Fault::Kind::cut_one_way;
    const bool timed = fault.kind == Fault::Kind::pause || fault.kind == Fault::Kind::jump_clock ||
                       fault.kind == Fault::Kind::slow_link;
    if (timed) fault.duration = milliseconds{100 + random() % 12'000};
    // More disks or states than the run tolerates are not to be survived.
    // Two regions and a witness list what one of them alone holds when the other is out of reach,
    // and take its word for the state.
    const bool has_witness = !schedule.options.witness.empty();
    const bool again = (fault.kind == Fault::Kind::wipe && (wiped || has_witness)) ||
                       (fault.kind == Fault::Kind::corrupt_state && (corrupted || has_witness)) ||
                       (pairs && fault.region == fault.other);
    wiped = wiped || fault.kind == Fault::Kind::wipe;
    corrupted = corrupted || fault.kind == Fault::Kind::corrupt_state;
    if (!pairs) fault.other.clear();
    if (fault.kind == Fault::Kind::heal) fault.region.clear();
    if (!again) schedule.faults.push_back(fault);
    at += milliseconds{200 + random() % 4'000};
  }
  if (random() % 4 == 0) adapt_k(schedule.options, random);
  sever_a_link(schedule);
  return schedule;
}

std::uint64_t least_spool_bytes(const ClusterOptions& options) {
  const Round behind = std::max<Round>({2, options.staleness_max + 1, options.checkpoint_rounds});
  return (behind + 3) * options.fragments * options.regions.size() * options.payload_bytes_max +
         2 * kSnapshotBytes;
}

Result run(const Schedule& schedule) {
  Result result;
  Cluster cluster(schedule.options);
  try {
    for (const Fault& fault : schedule.faults) {
      cluster.run_until(fault.at);
      apply(cluster, schedule, fault);
    }
    cluster.run_until(kFaultsEnd);
    for (const std::string& region : schedule.options.regions) {
      cluster.slow_down(region, Time{0});
    }
    cluster.heal();
    insist_on_members(cluster, schedule);
    if (!cluster.finish(cluster.now() + kHealedBound)) {
      throw Violation("the run does not end\n" + cluster.describe());
    }
    check_end(cluster, schedule);
  } catch (const Violation& violation) {
    result.failure = violation.what();
  }
  result.rounds = cluster.history().size();
  for (const CommitRecord& record : cluster.history()) {
    result.late += static_cast<std::size_t>(std::ranges::count_if(
        record.participants,
        [&record](const Participant& one) { return one.round < record.round; }));
  }
  result.restores = cluster.restores();
  result.refusals = cluster.refusals();
  result.withdrawals = cluster.withdrawals();
  result.terms = cluster.term();
  result.chunks = cluster.chunks_sent();
  return result;
}

Schedule shrink(const Schedule& schedule) {
  const auto kind_of = [](const std::string& failure) { return failure.substr(0, 12); };
  const std::string failure = kind_of(run(schedule).failure);
  Schedule smallest = schedule;
  for (std::size_t i = smallest.faults.size(); i-- > 0;) {
    Schedule without = smallest;
    without.faults.erase(without.faults.begin() + static_cast<std::ptrdiff_t>(i));
    if (kind_of(run(without).failure) == failure) smallest = std::move(without);
  }
  return smallest;
}

std::string report(const Schedule& schedule) {
  const Schedule shrunk = shrink(schedule);
  std::string text = "seed " + std::to_string(schedule.options.seed) +
                     (schedule.options.real_links ? " with real links" : "") + ", shrunk to:";
  for (const Fault& fault : shrunk.faults) text += "\n  " + describe(fault);
  return text + "\n" + run(shrunk).failure;
}

}  // namespace causeway::diloco::testing
