#include "diloco/pacing/recommendation.h"

#include <algorithm>
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
};
using Lines = std::vector<Line>;

double time_to_loss(const Row& row, const StatisticalPrice& price, double steps) {
  return steps * steps_factor(row.k, price) * steps_factor(row.overlap.variant) * row.round_s /
         row.k;
}

Choice choose(const std::vector<std::size_t>& line, std::span<const Row> rows,
              const StatisticalPrice& price) {
  std::vector<Candidate> candidates;
  candidates.reserve(line.size());
  for (const std::size_t i : line) {
    candidates.push_back({rows[i].k, time_to_loss(rows[i], price, 1)});
  }
  return choose_k(candidates);
}

Lines lines_of(std::span<const Row> rows, const StatisticalPrice& price) {
  using Kind = std::tuple<Variant, double, std::string, std::uint32_t, std::optional<inter::Shape>>;
  std::map<Kind, std::vector<std::size_t>> grouped;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (!counts(row)) continue;
    // In the order of preference: the least overlap, the most bits.
    grouped[{row.overlap.variant, -row.bits_per_parameter, row.codec, row.overlap.fragments,
             row.topology}]
        .push_back(i);
  }
  Lines lines;
  for (auto& [key, line] : grouped) {
    std::ranges::sort(line, {}, [&](std::size_t i) { return rows[i].k; });
    const Choice choice = choose(line, rows, price);
    lines.push_back({std::move(line), choice});
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

}  // namespace

bool counts(const Row& row) {
  return row.complete && row.participation >= kParticipationMin;
}

void price_rows(std::span<Row> rows, const StatisticalPrice& price, double steps) {
  for (Row& row : rows) {
    row.time_to_loss_s = time_to_loss(row, price, steps);
    row.cost_to_loss = row.round_s > 0 ? row.cost_per_round * row.time_to_loss_s / row.round_s : 0;
  }
}

std::optional<Recommendation> recommend(std::span<const Row> rows, const StatisticalPrice& price) {
  const Lines lines = lines_of(rows, price);
  if (lines.empty()) return std::nullopt;
  const auto best =
      std::ranges::min_element(lines, {}, [](const Line& line) { return line.choice.best_time_s; });
  const auto chosen = std::ranges::find_if(lines, [&](const Line& line) {
    return line.choice.time_s <= best->choice.best_time_s * (1 + kHardlyDifferent);
  });
  const Line& line = chosen == lines.end() ? *best : *chosen;
  Recommendation out;
  out.row = *std::ranges::min_element(line.rows, {}, [&](std::size_t i) {
    return std::pair(rows[i].k != line.choice.k, rows[i].round_s);
  });
  out.low = line.choice.low;
  out.high = line.choice.high;
  const bool measured = price.lambda_error > 0 && std::isfinite(price.lambda_error);
  for (const double lambda :
       {measured ? std::max(0.0, price.lambda - price.lambda_error) : kLambdaLow,
        measured ? price.lambda + price.lambda_error : kLambdaHigh}) {
    StatisticalPrice other = price;
    other.lambda = lambda;
    const Choice choice = choose(line.rows, rows, other);
    out.low = std::min(out.low, choice.k);
    out.high = std::max(out.high, choice.k);
  }
  out.half = nearest(line.rows, rows, line.choice.k / 2.0);
  out.twice = nearest(line.rows, rows, line.choice.k * 2.0);
  return out;
}

}  // namespace causeway::diloco::tuner
