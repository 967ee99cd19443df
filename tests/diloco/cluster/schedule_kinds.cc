// Random schedules of one kind each: what a plain one has, and something more.
#include <algorithm>
#include <random>

#include "tests/diloco/cluster/schedule.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool has(const Schedule& schedule, Fault::Kind kind) {
  return std::ranges::find(schedule.faults, kind, &Fault::kind) != schedule.faults.end();
}

void insert(Schedule& schedule, Fault::Kind kind, const std::string& region,
            std::mt19937_64& random) {
  const Fault fault{.at = milliseconds{2'000 + random() % 15'000}, .kind = kind, .region = region};
  const auto place = std::ranges::upper_bound(schedule.faults, fault.at, {}, &Fault::at);
  schedule.faults.insert(place, fault);
  schedule.options.rounds = 18;
}

}  // namespace

Schedule make_changing_schedule(std::uint64_t seed) {
  Schedule schedule = make_schedule(seed);
  std::mt19937_64 random(~seed);
  const std::vector<std::string> regions = schedule.options.regions;
  const bool wiped = has(schedule, Fault::Kind::wipe);
  // Until a lost disk's vote is given anew, every other member of its time is needed.
  const bool few = regions.size() < 3 || !schedule.options.witness.empty() || wiped;
  if (random() % 2 == 0) insert(schedule, Fault::Kind::join, "j", random);
  if (!few && random() % 2 == 0) {
    insert(schedule, Fault::Kind::leave, regions[random() % regions.size()], random);
    // Whoever leaves may be the only one that links the two.
    std::erase_if(schedule.faults,
                  [](const Fault& fault) { return fault.kind == Fault::Kind::sever; });
  }
  // The one disk that has what a run was forked from is not to be lost.
  schedule.options.forked = !wiped && random() % 2 == 0;
  return schedule;
}

Schedule make_lying_schedule(std::uint64_t seed) {
  Schedule schedule = make_schedule(seed);
  std::mt19937_64 random(~seed);
  ClusterOptions& options = schedule.options;
  const std::size_t count = 3 + random() % 4;
  options.regions = {"a", "b", "c", "d", "e", "f"};
  options.regions.resize(count);
  options.liar = options.regions[1 + random() % (count - 1)];
  options.witness.clear();
  options.planted = PlantedBug::none;
  options.crash_between_actions = 0;
  options.rounds = 10;
  schedule.faults.clear();
  for (Time at = seconds{2}; at < kFaultsEnd - seconds{10}; at += seconds{10}) {
    const auto honest = [&] {
      std::string region = options.liar;
      while (region == options.liar) region = options.regions[random() % count];
      return region;
    };
    const bool survives = count % 2 == 0;
    const Fault::Kind kinds[] = {Fault::Kind::kill_worker, Fault::Kind::slow_link,
                                 survives ? Fault::Kind::kill_region : Fault::Kind::kill_worker,
                                 survives ? Fault::Kind::pause : Fault::Kind::slow_link};
    schedule.faults.push_back({.at = at + milliseconds{random() % 4'000},
                               .kind = kinds[random() % std::size(kinds)],
                               .region = honest(),
                               .other = {},
                               .duration = milliseconds{100 + random() % 5'000}});
    schedule.faults.push_back({.at = at + seconds{6}, .kind = Fault::Kind::heal});
  }
  // It needs a snapshot, and the liar has some to offer. After the first fault is healed.
  const Fault wrong_state{.at = milliseconds{8'500},
                          .kind = Fault::Kind::corrupt_state,
                          .region = options.regions.front()};
  if (count % 2 == 0 && seed % 2 == 1)
    schedule.faults.insert(schedule.faults.begin() + 2, wrong_state);
  return schedule;
}

Schedule make_damaged_schedule(std::uint64_t seed) {
  Schedule schedule = make_schedule(seed);
  std::mt19937_64 random(~seed);
  schedule.options.witness.clear();
  // No more regions with a fault that lasts than a run tolerates.
  std::erase_if(schedule.faults, [](const Fault& fault) {
    return fault.kind == Fault::Kind::wipe || fault.kind == Fault::Kind::corrupt_state;
  });
  const std::vector<std::string> regions = schedule.options.regions;
  insert(schedule, Fault::Kind::damage, regions[random() % regions.size()], random);
  return schedule;
}

Schedule make_spoilt_schedule(std::uint64_t seed) {
  Schedule schedule = make_schedule(seed);
  std::mt19937_64 random(~seed);
  const std::vector<std::string>& regions = schedule.options.regions;
  for (std::size_t i = 0; i < 6 + random() % 12; ++i)
    insert(schedule, Fault::Kind::damage_payload, regions[random() % regions.size()], random);
  // One disk that is lost, and another that loses payloads: no state may be wrong beside that.
  // Of two states nobody knows which is wrong.
  if (has(schedule, Fault::Kind::wipe) || regions.size() == 2) {
    std::erase_if(schedule.faults,
                  [](const Fault& fault) { return fault.kind == Fault::Kind::corrupt_state; });
  }
  // What nobody has is given up after a while in which the regions stay up.
  schedule.options.crashes_end = kFaultsEnd;
  return schedule;
}

Schedule make_lost_schedule(std::uint64_t seed) {
  Schedule schedule = make_spoilt_schedule(seed);
  std::mt19937_64 random(~seed);
  // No more than a run tolerates beside that.
  std::erase_if(schedule.faults, [](const Fault& fault) {
    return fault.kind == Fault::Kind::wipe || fault.kind == Fault::Kind::corrupt_state;
  });
  for (std::size_t i = 0; i < 1 + random() % 2; ++i)
    insert(schedule, Fault::Kind::lose_payload, "", random);
  return schedule;
}

Schedule make_link_schedule(std::uint64_t seed) {
  Schedule schedule = make_schedule(seed);
  // A state that goes wrong after the last of so few rounds stays so: that is for the long
  // schedules.
  std::erase_if(schedule.faults,
                [](const Fault& fault) { return fault.kind == Fault::Kind::corrupt_state; });
  schedule.options.real_links = true;
  schedule.options.rounds = 8;
  return schedule;
}

Schedule make_spool_schedule(std::uint64_t seed) {
  Schedule schedule = make_schedule(seed);
  std::mt19937_64 random(~seed);
  ClusterOptions& options = schedule.options;
  options.regions = {"a", "b", "c", "d"};
  options.regions.resize(2 + random() % 3);
  options.witness.clear();
  options.k_policy = {};
  options.slowness.clear();
  options.real_links = true;
  options.rounds = 40;
  options.compute_min = milliseconds{400};
  options.compute_max = milliseconds{900};
  options.payload_bytes_min = options.payload_bytes_max = 1'000;  // none takes less than it may
  options.spool_bytes = least_spool_bytes(options);
  schedule.faults.clear();
  const std::string cut_off = options.regions[random() % options.regions.size()];
  const Time begins = milliseconds{3'000 + random() % 3'000};
  schedule.faults.push_back({.at = begins, .kind = Fault::Kind::isolate, .region = cut_off});
  const Time back = begins + seconds{12 + random() % 10};
  const Fault::Kind kinds[] = {Fault::Kind::kill_coordinator, Fault::Kind::kill_worker,
                               Fault::Kind::slow_link, Fault::Kind::pause};
  // The cut ends with the first of these; the rest comes while it catches up.
  schedule.faults.push_back({.at = back, .kind = Fault::Kind::heal});
  for (Time at = back; at < kFaultsEnd - seconds{5}; at += seconds{5}) {
    const std::string& hit = options.regions[random() % options.regions.size()];
    schedule.faults.push_back({.at = at + milliseconds{random() % 3'000},
                               .kind = kinds[random() % std::size(kinds)],
                               .region = random() % 2 == 0 ? cut_off : hit,
                               .other = {},
                               .duration = milliseconds{100 + random() % 3'000}});
    schedule.faults.push_back({.at = at + seconds{4}, .kind = Fault::Kind::heal});
  }
  return schedule;
}

Schedule make_sharded_schedule(std::uint64_t seed) {
  static constexpr Schedule (*kKinds[])(std::uint64_t) = {
      make_schedule,       make_changing_schedule, make_damaged_schedule,
      make_lying_schedule, make_spoilt_schedule,   make_lost_schedule};
  Schedule schedule = kKinds[seed % std::size(kKinds)](seed);
  schedule.options.shards = 1 + seed / std::size(kKinds) % 7;
  schedule.options.counts_steps = true;
  return schedule;
}

Schedule make_outrun_schedule(std::uint64_t seed) {
  static constexpr Schedule (*kKinds[])(std::uint64_t) = {
      make_schedule, make_changing_schedule, make_damaged_schedule, make_lying_schedule,
      make_spoilt_schedule};
  Schedule schedule = kKinds[seed % std::size(kKinds)](seed);
  schedule.options.rounds = 80;
  schedule.options.compute_min = milliseconds{200};
  schedule.options.compute_max = milliseconds{400};
  schedule.options.apply_min["a"] = milliseconds{200} * (1 + seed / std::size(kKinds) % 5);
  if (seed % 2 == 0) return schedule;
  // What comes takes longer, too: several rounds for a snapshot.
  for (const std::string& from : schedule.options.regions) {
    if (from == "a" || from == schedule.options.liar) continue;
    schedule.faults.insert(schedule.faults.begin(), {.at = milliseconds{500},
                                                     .kind = Fault::Kind::slow_link,
                                                     .region = from,
                                                     .other = {},
                                                     .duration = milliseconds{300}});
  }
  return schedule;
}

}  // namespace causeway::diloco::testing
