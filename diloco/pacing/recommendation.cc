#include "diloco/pacing/recommendation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace causeway::diloco::tuner {
namespace {

constexpr double kHardlyDifferent = 0.02;
constexpr double kParticipationMin = 0.9;
// Of published runs between 35M and 1B parameters.
constexpr double kLambdaLow = 0.05, kLambdaHigh = 0.30;

// Rows that differ in K alone, and in the steps that then hide an exchange.
struct Line {
  std::vector<std::size_t> rows;  // ascending K
  Choice choice;
  double doubt = 1;  // factor on its times

  double cautious_time() const { return choice.time_s * doubt; }
};
using Lines = std::vector<Line>;

// With `price` in the place of the row's own. Without `steps`: per step of a run without end.
double rounds_to_loss(const Row& row, const StatisticalPrice& price, double steps) {
  constexpr double kRounding = 1e-9;  // of what should be whole
  const double late = row.overlap_priced ? 1 : steps_factor(row.overlap.variant);
  const double per_step = steps_factor(row.k, price) * late / row.k;
  return steps > 0 ? std::ceil(steps * per_step * (1 - kRounding)) : per_step;
}

Choice choose(const std::vector<std::size_t>& line, std::span<const Row> rows,
              const StatisticalPrice& price, double steps) {
  std::vector<Candidate> candidates;
  candidates.reserve(line.size());
  for (const std::size_t i : line) {
    candidates.push_back({rows[i].k, rounds_to_loss(rows[i], price, steps) * rows[i].round_s});
  }
  return choose_k(candidates);
}

double doubt_of(const Row& row) {
  return row.price && row.price->steps > 0 ? 1 + row.price->steps_error / row.price->steps : 1;
}

Lines lines_of(std::span<const Row> rows, const StatisticalPrice& price, double steps) {
  using Kind = std::tuple<Variant, ExchangeKind, double, std::string, std::string, std::uint32_t,
                          std::optional<inter::Shape>>;
  std::map<Kind, std::vector<std::size_t>> grouped;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (!counts(row)) continue;
    // In the order of preference: the least overlap, full exchanges, the most bits.
    grouped[{row.overlap.variant, row.exchange, -row.bits_per_parameter, row.codec, row.inner,
             row.overlap.fragments, row.topology}]
        .push_back(i);
  }
  Lines lines;
  for (auto& [key, line] : grouped) {
    std::ranges::sort(line, {}, [&](std::size_t i) { return rows[i].k; });
    const Row& first = rows[line.front()];
    const Choice choice = choose(line, rows, first.price.value_or(price), steps);
    lines.push_back({std::move(line), choice, doubt_of(first)});
  }
  return lines;
}

std::optional<std::size_t> nearest(const std::vector<std::size_t>& line, std::span<const Row> rows,
                                   double k) {
  const auto distance = [&](std::size_t i) { return std::abs(std::log(rows[i].k / k)); };
  const auto found = std::ranges::min_element(line, {}, distance);
  if (found == line.end() || distance(*found) > 0.2) return std::nullopt;
  return *found;
}

// With the least and the largest lambda that this may be.
std::array<StatisticalPrice, 2> bounds_of(const StatisticalPrice& price) {
  std::array<StatisticalPrice, 2> bounds{price, price};
  const bool measured = price.lambda_error > 0 && std::isfinite(price.lambda_error);
  bounds[0].lambda = measured ? std::max(0.0, price.lambda - price.lambda_error) : kLambdaLow;
  bounds[1].lambda = measured ? price.lambda + price.lambda_error : kLambdaHigh;
  return bounds;
}

}  // namespace

bool counts(const Row& row) {
  return row.complete && row.participation >= kParticipationMin;
}

double steps_factor(const Row& row, const StatisticalPrice& price) {
  return steps_factor(row.k, row.price.value_or(price)) *
         (row.overlap_priced ? 1 : steps_factor(row.overlap.variant));
}

void price_rows(std::span<Row> rows, const StatisticalPrice& price, double steps) {
  for (Row& row : rows) {
    const double rounds = rounds_to_loss(row, row.price.value_or(price), steps);
    row.time_to_loss_s = rounds * row.round_s;
    row.cost_to_loss = rounds * row.cost_per_round;
  }
}

std::optional<Recommendation> recommend(std::span<const Row> rows, const StatisticalPrice& price,
                                        double steps) {
  const Lines lines = lines_of(rows, price, steps);
  if (lines.empty()) return std::nullopt;
  const auto best = std::ranges::min_element(
      lines, {}, [](const Line& line) { return line.choice.best_time_s * line.doubt; });
  const auto chosen = std::ranges::find_if(lines, [&](const Line& line) {
    return line.cautious_time() <= best->choice.best_time_s * best->doubt * (1 + kHardlyDifferent);
  });
  const Line& line = chosen == lines.end() ? *best : *chosen;
  Recommendation out;
  out.row = *std::ranges::min_element(line.rows, {}, [&](std::size_t i) {
    return std::pair(rows[i].k != line.choice.k, rows[i].round_s);
  });
  out.low = line.choice.low;
  out.high = line.choice.high;
  for (const StatisticalPrice& other : bounds_of(rows[out.row].price.value_or(price))) {
    const Choice choice = choose(line.rows, rows, other, steps);
    out.low = std::min(out.low, choice.k);
    out.high = std::max(out.high, choice.k);
  }
  out.half = nearest(line.rows, rows, line.choice.k / 2.0);
  out.twice = nearest(line.rows, rows, line.choice.k * 2.0);
  return out;
}

}  // namespace causeway::diloco::tuner
