#include "apps/run/tune/timed_rounds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "apps/run/page/format.h"
#include "apps/run/tune/grid.h"

namespace causeway::run {
namespace {

namespace tuner = diloco::tuner;

constexpr std::uint32_t kMeasuredRounds = 8;

class RoundMeasurer {
 public:
  RoundMeasurer(const TimedRounds& how, Tuning& tuning)
      : how_(how), config_(how.input.config), out_(tuning) {}

  // Timed steps on real processes: this host's cores are no measure of the regions'.
  void measure() {
    const auto begin = std::chrono::steady_clock::now();
    const auto step_ms =
        static_cast<std::uint32_t>(std::max(1L, std::lround(1e3 * slowest_step_s(how_.input))));
    for (const std::size_t i : rows_to_measure()) {
      tuner::Row& row = out_.forecast.rows[i];
      const double spent_s =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      const double needed_s = 5 + (kMeasuredRounds + 2) * row.round_s;
      if (!how_.options.measure_all && spent_s + needed_s > how_.options.measure_s) {
        not_measured(row,
                     "this takes " + format_duration(needed_s) + ", more than --measure leaves");
        continue;
      }
      try {
        row.measured_round_s = measure(row, i, step_ms);
        row.predicted_as_measured_s = rehearse_timed(row, step_ms);
      } catch (const std::runtime_error& error) {
        not_measured(row, error.what());
      }
    }
  }

 private:
  // The recommended row and its neighbours.
  std::vector<std::size_t> rows_to_measure() const {
    std::vector<std::size_t> rows;
    if (out_.recommendation) {
      rows.push_back(out_.recommendation->row);
      for (const auto& row : {out_.recommendation->half, out_.recommendation->twice}) {
        if (row) rows.push_back(*row);
      }
    }
    if (!how_.options.measure_all) return rows;
    rows.clear();
    for (std::size_t i = 0; i < out_.forecast.rows.size(); ++i) rows.push_back(i);
    return rows;
  }

  void not_measured(const tuner::Row& row, const std::string& why) {
    out_.warnings.push_back(
        fmt::format("K = {}, {} was not measured: {}", row.k, describe(row), why));
  }

  // As the steps are timed: in whole milliseconds, alike in all regions.
  double rehearse_timed(const tuner::Row& row, std::uint32_t step_ms) const {
    Probe timed = out_.probe;
    timed.step_s = step_ms / 1e3;
    timed.step_deviation_s = 0;
    const PredictInput input{.config = config_,
                             .probe = timed,
                             .links = how_.input.links,
                             .prices = {},
                             .step_s = {},
                             .rounds = how_.options.rounds};
    return predict(input, {row}).rows.front().round_s;
  }

  std::optional<double> measure(const tuner::Row& row, std::size_t index, std::uint32_t step_ms) {
    how_.note(fmt::format("measuring: K = {}, {}", row.k, describe(row)));
    const std::string name = fmt::format("row-{}", index);
    std::filesystem::remove_all(how_.runs.path(name));
    std::vector<std::string> overrides = {
        fmt::format("train.timed_step_ms={}", std::lround(step_ms * row.inner_step_ratio)),
        fmt::format("train.k={}", row.k),
        fmt::format("train.steps={}", std::uint64_t{row.k} * (kMeasuredRounds + 2)),
        "train.checkpoint_rounds=1000",
        "codec.matrix=" + row.codec,
        "sync.k=fixed",
        "sync.k_min=0",
        "sync.k_max=0",
        "sync.warmup_k=0",
        "sync.variant=" + std::string(tuner::to_string(row.overlap.variant)),
        fmt::format("sync.fragments={}", row.overlap.fragments),
        fmt::format("sync.overlap_steps={}", row.overlap.overlap_steps),
        "links.topology=" + topology_name(row.topology),
        "sync.exchange=" + exchange_name(row.exchange),
        "wan.profile=" + how_.links_file.string()};
    if (with_choice(config_, row).codec.feedback) overrides.emplace_back("codec.feedback=true");
    how_.runs.run(name, overrides, {.shaped = true});
    auto measured = measured_round_s(how_.runs.path(name), out_.regions);
    if (measured) *measured *= row.overlap.fragments;  // the log's rounds are of one fragment
    std::filesystem::remove_all(how_.runs.path(name));
    return measured;
  }

  const TimedRounds& how_;
  const Config& config_;
  Tuning& out_;
};

}  // namespace

void measure_rounds(const TimedRounds& how, Tuning& tuning) {
  RoundMeasurer(how, tuning).measure();
}

}  // namespace causeway::run
