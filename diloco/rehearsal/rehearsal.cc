#include "diloco/rehearsal/rehearsal.h"

#include <algorithm>

#include "diloco/pacing/time_model.h"
#include "diloco/rehearsal/rehearsal_region.h"

namespace causeway::diloco::tuner {
namespace {

double in_seconds(Time time) {
  return std::chrono::duration<double>(time).count();
}

class Rehearsal {
 public:
  Rehearsal(World& world, const RehearsalOptions& options) : world_(world), options_(options) {
    for (const auto& [name, pace] : options.regions) {
      regions_[name] = std::make_unique<RehearsalRegion>(world, options, name);
    }
  }

  RehearsalResult run() {
    for (const auto& [name, region] : regions_) region->start();
    poll();
    const Time limit =
        options_.limit_s > 0 ? Time{static_cast<Time::rep>(options_.limit_s * 1e6)} : Time::max();
    while (!done() && world_.step(limit)) {
    }
    return measure();
  }

 private:
  void poll() {
    for (const auto& [name, region] : regions_) region->poll();
    world_.after(Time{static_cast<Time::rep>(options_.poll_s * 1e6)}, [this] { poll(); });
  }

  std::size_t per_round() const {
    return options_.overlap.variant == Variant::streaming
               ? std::max<std::uint32_t>(1, options_.overlap.fragments)
               : 1;
  }
  std::size_t before() const { return options_.rounds_before * per_round(); }

  bool done() const {
    return std::ranges::all_of(regions_, [this](const auto& entry) {
      const RehearsalRegion& region = *entry.second;
      const auto& marks = region.marks();
      if (region.ended()) return true;
      if (marks.size() <= before() + options_.rounds * per_round()) return false;
      return in_seconds(marks.back().at - marks[before()].at) >= options_.measured_s_min;
    });
  }

  RehearsalResult measure() const {
    RehearsalResult result;
    const auto n = static_cast<double>(regions_.size());
    double exchanges = 0, listed = 0;
    std::vector<double> rounds_s;
    for (const auto& [name, region] : regions_) {
      const auto& marks = region->marks();
      if (region->ended() || marks.size() <= before() + per_round()) return {};
      const std::size_t count = (marks.size() - 1 - before()) / per_round();  // whole rounds only
      const std::size_t end = before() + count * per_round();
      const double span_s = in_seconds(marks[end].at - marks[before()].at);
      for (std::size_t i = before(); i < end; ++i) {
        listed += static_cast<double>(marks[i + 1].participants) / n;
        ++exchanges;
        if ((i - before()) % per_round() != 0) continue;
        rounds_s.push_back(in_seconds(marks[i + per_round()].at - marks[i].at));
      }
      result.utilisation += (marks[end].compute_s - marks[before()].compute_s) / span_s / n;
      result.round_s += span_s / static_cast<double>(count) / n;
      result.rounds += static_cast<double>(count) / n;
      result.sent_bytes += static_cast<double>(world_.sent_bytes(name) * per_round()) /
                           static_cast<double>(marks.size());
    }
    result.complete = done();
    result.round_s_p95 = quantile(rounds_s, 0.95);
    result.participation = listed / exchanges;
    return result;
  }

  World& world_;
  const RehearsalOptions& options_;
  std::map<std::string, std::unique_ptr<RehearsalRegion>> regions_;
};

}  // namespace

RehearsalResult rehearse(World& world, const RehearsalOptions& options) {
  return Rehearsal(world, options).run();
}

}  // namespace causeway::diloco::tuner
