#include "diloco/pacing/egress_meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

namespace causeway::diloco {
namespace {

using Period = Spending::Period;

constexpr std::size_t kSamples = 33;
constexpr double kUsable = 0.98;   // of a limit
constexpr double kLonger = 1.01;   // a pause should not end before its period does
constexpr double kManyTimes = 10;  // what rounds take

// Of an even number the lower one: of two rounds, one of which a clock jumped in, the other counts.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::chrono::sys_days day_of(double unix_s) {
  // A clock may say anything.
  const double days = std::clamp(std::floor(unix_s / 86'400), 0.0, 3'000'000.0);
  return std::chrono::sys_days(std::chrono::days(static_cast<int>(days)));
}

std::int64_t day_number(double unix_s) {
  return day_of(unix_s).time_since_epoch().count();
}

std::int64_t month_number(double unix_s) {
  const std::chrono::year_month_day date(day_of(unix_s));
  return 12 * std::int64_t{int(date.year())} + unsigned(date.month()) - 1;
}

double unix_s(std::chrono::sys_days day) {
  return std::chrono::duration<double>(day.time_since_epoch()).count();
}

double end_of_day(double at_s) {
  return unix_s(day_of(at_s) + std::chrono::days(1));
}

double end_of_month(double at_s) {
  const std::chrono::year_month_day date(day_of(at_s));
  return unix_s(std::chrono::sys_days((date.year() / date.month() + std::chrono::months(1)) / 1));
}

double cost_of(const CommitRecord& record) {
  return std::accumulate(record.egress.begin(), record.egress.end(), 0.0,
                         [](double sum, const EgressCost& region) { return sum + region.cost; });
}

}  // namespace

double EgressPrices::of(const std::string& peer, std::uint64_t bytes) const {
  const auto found = per_gb.find(peer);
  return static_cast<double>(bytes) / 1e9 * (found == per_gb.end() ? otherwise : found->second);
}

double OwnEgress::total(double now, double agreed) {
  before_ = std::max(before_, agreed - now);
  return before_ + now;
}

// ---- What the records tell ----

// A clock that is set back gives nobody new money, and a day that comes again goes on with what is
// left of its own. A clock that was ahead once costs no more than one day's money: the days after
// that are new.
double EgressMeter::Calendar::spent_before(std::int64_t number, double spent) const {
  if (number <= number_) return spent_before_;
  const auto given = given_.find(number);
  return given == given_.end() ? spent : given->second;
}

void EgressMeter::Calendar::turn_to(std::int64_t number, double spent) {
  spent_before_ = spent_before(number, spent);
  number_ = number;
  given_.try_emplace(number, spent_before_);
}

double EgressMeter::Calendar::spent_in(std::int64_t number, double spent) const {
  return spent - spent_before(number, spent);
}

void EgressMeter::add(const CommitRecord& record, std::uint64_t step, std::uint32_t steps) {
  done_ = step + steps;
  open_steps_ = record.next_k;
  const double at_s = record.decided_unix_s;
  if (!budget_.limits() || at_s == 0) return;
  day_.turn_to(day_number(at_s), spent_);
  month_.turn_to(month_number(at_s), spent_);
  spent_ = std::max(spent_, cost_of(record));
  bear_clock_set_back(at_s);
  Sample sample{.at_s = at_s, .spent = spent_, .steps = steps};
  if (record.measured) sample.step_s = record.measured->step_s;
  samples_.push_back(sample);
  if (samples_.size() > kSamples) samples_.pop_front();
}

// What rounds cost stays known: without it, each change of leader would give a round that nothing
// limits. The round that the clock was set back in counts as one of mean length.
void EgressMeter::bear_clock_set_back(double at_s) {
  if (samples_.empty() || at_s >= samples_.back().at_s) return;
  if (!knows_costs()) return samples_.clear();
  const std::vector<std::size_t> rounds = usual_rounds();
  double rounds_s = 0;
  for (const std::size_t i : rounds) rounds_s += took_s(i);
  const double mean_s = rounds_s / static_cast<double>(rounds.size());
  const double back_s = samples_.back().at_s + mean_s - at_s;
  for (Sample& sample : samples_) sample.at_s -= back_s;
}

double EgressMeter::took_s(std::size_t i) const {
  return samples_[i].at_s - samples_[i - 1].at_s;
}

// Without those that a clock jumped ahead in, or that the run stood still in: they took many times
// as long as half of the rounds, and as long as their steps take. A pause has its steps.
std::vector<std::size_t> EgressMeter::usual_rounds() const {
  std::vector<double> rounds_s, steps_s;
  const auto steps_of = [this](std::size_t i) { return std::max(1U, samples_[i].steps); };
  for (std::size_t i = 1; i < samples_.size(); ++i) {
    rounds_s.push_back(took_s(i));
    steps_s.push_back(took_s(i) / steps_of(i));
  }
  const double round_s = median(rounds_s), step_s = median(steps_s);
  std::vector<std::size_t> usual;
  for (std::size_t i = 1; i < samples_.size(); ++i) {
    // Rounds that took no time may be some nanoseconds below it.
    const double long_s = kManyTimes * std::max({0.0, round_s, steps_of(i) * step_s});
    if (took_s(i) <= long_s) usual.push_back(i);
  }
  return usual;
}

double EgressMeter::round_cost() const {
  const auto rounds = static_cast<double>(samples_.size() - 1);
  return (samples_.back().spent - samples_.front().spent) / rounds;
}

// Of an inner step, as measured; where nothing is, of the rounds.
double EgressMeter::step_s() const {
  double measured_s = 0, rounds_s = 0;
  std::uint64_t measured = 0, steps = 0;
  for (std::size_t i = 1; i < samples_.size(); ++i) {
    if (samples_[i].step_s == 0) continue;
    measured_s += samples_[i].step_s;
    ++measured;
  }
  for (const std::size_t i : usual_rounds()) {
    rounds_s += took_s(i);
    steps += samples_[i].steps;
  }
  const double step_s = measured > 0
                            ? measured_s / static_cast<double>(measured)
                            : rounds_s / static_cast<double>(std::max<std::uint64_t>(1, steps));
  return std::max(1e-6, step_s);
}

double EgressMeter::overhead_s() const {
  const std::vector<std::size_t> rounds = usual_rounds();
  const double step_s = this->step_s();
  double overhead_s = 0;
  for (const std::size_t i : rounds) overhead_s += took_s(i) - samples_[i].steps * step_s;
  return std::max(0.0, overhead_s / static_cast<double>(rounds.size()));
}

std::uint64_t EgressMeter::steps_left() const {
  return pace_.steps - std::min(pace_.steps, done_ + open_steps_);
}

Spending EgressMeter::of_run() const {
  return {.limit = budget_.total, .spent = spent_, .round_cost = round_cost()};
}

// Of the periods in which `at_s` is.
std::vector<Spending> EgressMeter::spendings(double at_s) const {
  std::vector<Spending> all;
  if (!knows_costs()) return all;
  const auto add = [&](Period period, double limit, double spent, double until_unix_s) {
    if (limit == 0) return;
    all.push_back({.period = period,
                   .limit = limit,
                   .spent = spent,
                   .round_cost = round_cost(),
                   .until_unix_s = until_unix_s});
  };
  add(Period::day, budget_.per_day, day_.spent_in(day_number(at_s), spent_), end_of_day(at_s));
  add(Period::month, budget_.per_month, month_.spent_in(month_number(at_s), spent_),
      end_of_month(at_s));
  if (budget_.total > 0) all.push_back(of_run());
  return all;
}

double EgressMeter::now_s() const {
  return samples_.empty() ? 0 : samples_.back().at_s;
}

double EgressMeter::open_ends_s() const {
  return knows_costs() ? now_s() + overhead_s() + open_steps_ * step_s() : 0;
}

// Those that follow the last step, too (pace.h).
double EgressMeter::rounds_under_way() const {
  return (done_ < pace_.steps ? 2 : 1) + (pace_.fragments - 1);
}

// ---- What follows ----

std::vector<EgressForecast> EgressMeter::forecasts(std::uint32_t k) const {
  std::vector<EgressForecast> all;
  for (const Spending& spending : spendings(now_s()))
    all.push_back({spending, at_end(spending, k)});
  return all;
}

std::optional<double> EgressMeter::at_end(std::uint32_t k) const {
  return knows_costs() ? std::optional(at_end(of_run(), k)) : std::nullopt;
}

double EgressMeter::at_end(const Spending& spending, std::uint32_t k) const {
  const double steps = std::max(1U, k / pace_.fragments);
  double rounds = std::ceil(static_cast<double>(steps_left()) / steps);
  if (spending.period != Period::run) {
    const double round_s = overhead_s() + steps * step_s();
    const double left_s = std::max(0.0, spending.until_unix_s - open_ends_s());
    rounds = std::min(rounds, std::ceil(left_s / round_s));
  }
  return spending.spent + round_cost() * (rounds_under_way() + rounds);
}

std::optional<EgressMeter::Need> EgressMeter::need() const {
  std::optional<Need> most;
  // Another K begins when the open round ends.
  for (const Spending& spending : spendings(open_ends_s())) {
    const std::optional<Need> one = need(spending);
    if (one && (!most || one->k > most->k)) most = one;
  }
  return most;
}

std::optional<EgressMeter::Need> EgressMeter::need(const Spending& spending) const {
  if (!budget_.changes_k() || spending.round_cost <= 0 || steps_left() == 0) return std::nullopt;
  const double left = kUsable * spending.limit - spending.spent;
  const double rounds = std::floor(left / spending.round_cost) - rounds_under_way();
  // The run's last exchange must be paid for; a day's pause ends with another day's money.
  const bool pauses = rounds < (spending.period == Period::run ? 2 : 1);
  if (!pauses && budget_.action == EgressBudget::Action::pause) return std::nullopt;
  double steps = static_cast<double>(steps_left()) / (pauses ? 1 : rounds);
  if (spending.period != Period::run) {
    const double seconds = spending.until_unix_s - open_ends_s();
    const double round_s = pauses ? kLonger * seconds : seconds / rounds - overhead_s();
    steps = std::min(steps, std::max(1.0, round_s / step_s()));
  }
  const auto k = static_cast<std::uint32_t>(
      std::min(std::ceil(steps) * pace_.fragments, double{kLargestK} * pace_.fragments));
  if (budget_.k_max > 0 && k > budget_.k_max) return Need{budget_.k_max, false, spending};
  return Need{k, pauses, spending};
}

// ---- In words ----

namespace {

// Three digits at least, and cents.
std::string money(double value) {
  return value >= 1 || value == 0 ? fmt::format("{:.2f}", value) : fmt::format("{:.3g}", value);
}

}  // namespace

std::string to_string(const Spending& spending) {
  static constexpr const char* kOf[] = {" a day", " a month", " for the whole run"};
  return "egress cost " + money(spending.spent) + " of the " + money(spending.limit) +
         kOf[static_cast<std::size_t>(spending.period)] + ", and a round costs " +
         money(spending.round_cost);
}

std::string to_string(const EgressForecast& forecast) {
  return to_string(forecast.spending) + "; with rounds as they are it will be " +
         money(forecast.at_end) + " by " + end_of(forecast.spending);
}

std::string end_of(const Spending& spending) {
  if (spending.period == Period::run) return "the end of the run";
  const std::chrono::year_month_day date(day_of(spending.until_unix_s));
  return fmt::format("{:04}-{:02}-{:02} 00:00 UTC", int(date.year()), unsigned(date.month()),
                     unsigned(date.day()));
}

}  // namespace causeway::diloco
