// From a grid of predicted rounds to one recommendation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "diloco/pacing/exchange_kind.h"
#include "diloco/pacing/objective.h"
#include "diloco/pacing/time_model.h"
#include "inter/route/topology.h"

namespace causeway::diloco::tuner {

// One choice, and what it is predicted to do.
struct Row {
  std::uint32_t k = 0;
  std::string codec;
  double bits_per_parameter = 0;  // of the codec
  std::string inner{};            // optimizer; empty: one of the user's own program
  double inner_step_ratio = 1;    // time of a step with it, of one as configured
  Overlap overlap;
  std::optional<inter::Shape> topology{};  // empty: as the links suggest
  ExchangeKind exchange = ExchangeKind::full;

  // What this inner optimizer and codec need, where that was measured.
  std::optional<StatisticalPrice> price{};
  bool overlap_priced = false;  // that includes what applying an exchange late needs

  bool complete = false;  // the rehearsal got through
  double round_s = 0, round_s_p95 = 0;
  double utilisation = 0;
  double participation = 0;   // of contributions listed in their round
  double sent_bytes = 0;      // by all regions in a round
  double cost_per_round = 0;  // egress, in the price table's currency
  double time_to_loss_s = 0;  // price_rows
  double cost_to_loss = 0;    // price_rows
  std::optional<double> measured_round_s{};
  // What is to be held against it: predicted for the steps that were timed then.
  std::optional<double> predicted_as_measured_s{};
};

// S(K) / S0 of the row; `price` if it has none of its own.
double steps_factor(const Row& row, const StatisticalPrice& price);

// Fills in time and cost to the target loss: what `steps` inner steps reach at K0 as configured. In
// whole rounds: what a round learns counts for nothing before its exchange.
// `price`: of rows that have none of their own.
void price_rows(std::span<Row> rows, const StatisticalPrice& price, double steps);

// Whether it may be recommended: its rehearsal got through, and regions missed few of its rounds.
bool counts(const Row& row);

struct Recommendation {
  std::size_t row = 0;
  // K's that hardly differ; for every lambda within its error, or within published ones if it was
  // not measured.
  std::uint32_t low = 0, high = 0;
  std::optional<std::size_t> half, twice;  // rows with K/2 and 2K, nearest of the grid
};

// The quickest, with what was measured of its steps taken at one standard error more, so that noise
// alone recommends no other optimizer or codec than the configured ones. Of combinations that
// differ by less than 2 % the one with the least overlap, then with full exchanges, then with the
// most bits. Rows that are not complete, or in which regions miss more than a tenth of the rounds,
// do not count. Nothing if no row does. `steps`: as of price_rows(); 0: of a run so long that parts
// of rounds do not matter.
std::optional<Recommendation> recommend(std::span<const Row> rows, const StatisticalPrice& price,
                                        double steps = 0);

}  // namespace causeway::diloco::tuner
