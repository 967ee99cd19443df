// What traffic between the regions costs, as the records tell, and how long rounds must be so that
// it stays within a budget (docs/operate.md). A pure function of the records, like k_policy.h,
// which asks it.
//
// - A round's cost is the mean of the newest rounds. It does not depend on K. So is its time, but
//   for rounds that seem many times longer than half of them: the leader's clock jumped ahead.
// - Two rounds are paid for in any case: the one that was just decided and the open one.
// - 2 % of each limit are kept back for what is not known yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diloco/log/record.h"
#include "diloco/pacing/pace.h"

namespace causeway::diloco {

// Inner steps that a budget may ask for at most, whatever it has left.
inline constexpr std::uint32_t kLargestK = 8'000'000;

// In the currency of the prices; 0: no limit. Days and months are those of UTC.
struct EgressBudget {
  enum class Action {
    warn,
    stretch_k,  // K grows, so that the money lasts
    pause,      // K stays until the money is spent; then one round lasts until there is new money
  };
  double per_day = 0, per_month = 0, total = 0;
  Action action = Action::warn;
  std::uint32_t k_max = 0;  // of what the budget asks for; 0: as long as it takes

  bool limits() const { return per_day > 0 || per_month > 0 || total > 0; }
  bool changes_k() const { return limits() && action != Action::warn; }
};

// What a region pays for 10^9 bytes to each other member. Those that are not named cost
// `otherwise`.
struct EgressPrices {
  std::map<std::string, double> per_gb = {};
  double otherwise = 0;
  bool given = false;

  double of(const std::string& peer, std::uint64_t bytes) const;
};

// What this region has paid since the run began.
class OwnEgress {
 public:
  // `before`: in earlier processes, as one of them wrote.
  explicit OwnEgress(double before = 0) : before_(before) {}
  // `now`: in this process. `agreed`: what the run's records say: they know of what was not
  // written before a crash, or was lost with a disk.
  double total(double now, double agreed);

 private:
  double before_ = 0;
};

// "2026-11-24 00:00 UTC", or "the end of the run".
std::string end_of(const Spending& spending);

// How far a limit is used up, and would be at its end with rounds as they are.
struct EgressForecast {
  Spending spending;
  double at_end = 0;
};
// "egress cost 7.10 of the 10.00 a day, ...; it will be 12.30 at 2026-11-24 00:00 UTC"
std::string to_string(const EgressForecast& forecast);

class EgressMeter {
 public:
  EgressMeter(const EgressBudget& budget, const Pace& pace) : budget_(budget), pace_(pace) {}

  // The next record, of a round of `steps` nominal steps that began after `step` of them.
  void add(const CommitRecord& record, std::uint64_t step, std::uint32_t steps);

  double spent() const { return spent_; }
  std::uint64_t steps_left() const;  // after the open round
  // One for each limit, with rounds of K steps after the open one. None before the cost of a round
  // is known.
  std::vector<EgressForecast> forecasts(std::uint32_t k) const;
  // Of the whole run, likewise.
  std::optional<double> at_end(std::uint32_t k) const;

  // The least K that keeps every limit, a multiple of the fragments, and the limit that asks for
  // it. None: any will do.
  struct Need {
    std::uint32_t k = 0;
    bool pauses = false;  // there is no money for another round
    Spending because;
  };
  std::optional<Need> need() const;

 private:
  struct Sample {
    double at_s = 0, spent = 0;  // when a record was decided
    std::uint32_t steps = 0;     // of its round
    double step_s = 0;           // measured; 0: not
  };
  // Days or months, as the clocks of the leaders name them: these may differ, and be set back.
  class Calendar {
   public:
    void turn_to(std::int64_t number, double spent);
    double spent_in(std::int64_t number, double spent) const;

   private:
    double spent_before(std::int64_t number, double spent) const;

    std::int64_t number_ = 0;               // of the newest record
    double spent_before_ = 0;               // and what was spent before its money was given
    std::map<std::int64_t, double> given_;  // to each that a record named: what was spent before
  };

  bool knows_costs() const { return samples_.size() >= 2; }
  double took_s(std::size_t i) const;             // the round of sample i > 0, by the clocks
  std::vector<std::size_t> usual_rounds() const;  // their samples; at least one
  double round_cost() const;
  double step_s() const;
  double overhead_s() const;  // of a round, whatever its steps
  Spending of_run() const;
  std::vector<Spending> spendings(double at_s) const;
  void bear_clock_set_back(double at_s);
  double now_s() const;        // of the newest record
  double open_ends_s() const;  // about
  double rounds_under_way() const;
  double at_end(const Spending& spending, std::uint32_t k) const;
  std::optional<Need> need(const Spending& spending) const;

  EgressBudget budget_;
  Pace pace_;
  double spent_ = 0;
  std::deque<Sample> samples_;  // the newest
  Calendar day_, month_;
  std::uint64_t done_ = 0;        // steps of all rounds that were decided
  std::uint32_t open_steps_ = 0;  // of the open round
};

}  // namespace causeway::diloco
