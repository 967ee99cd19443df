#include "apps/run/replay/credit_table.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/run/page/format.h"
#include "apps/run/page/html.h"
#include "apps/run/region/parse_object.h"

namespace causeway::run {

// ---- Figures ----

double mean_loss(const std::vector<intra::BlockLoss>& batches) {
  double sum = 0, windows = 0;
  for (const intra::BlockLoss& batch : batches) {
    sum += batch.loss * static_cast<double>(batch.windows);
    windows += static_cast<double>(batch.windows);
  }
  return windows > 0 ? sum / windows : 0;
}

std::optional<double> error_of_sum(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  if (values.size() < 2) return std::nullopt;
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(count * squares / (count - 1));
}

void LossDifference::add(const std::vector<intra::BlockLoss>& with,
                         const std::vector<intra::BlockLoss>& without) {
  assert(with.size() == without.size());
  batches_.resize(with.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    batches_[i].windows = with[i].windows;
    batches_[i].loss += without[i].loss - with[i].loss;
  }
}

// Of a mean with weights w: sqrt(n / (n - 1) sum(w^2 (x - mean)^2)) / sum(w) (Cochran, Sampling
// Techniques, 1977, of a ratio of sums).
Worth LossDifference::worth() const {
  Worth worth{.value = mean_loss(batches_), .batches_error = {}, .rounds_error = {}};
  const auto count = static_cast<double>(batches_.size());
  if (batches_.size() < 2) return worth;
  double squares = 0, windows = 0;
  for (const intra::BlockLoss& batch : batches_) {
    const double own = static_cast<double>(batch.windows) * (batch.loss - worth.value);
    squares += own * own;
    windows += static_cast<double>(batch.windows);
  }
  worth.batches_error = std::sqrt(count / (count - 1) * squares) / windows;
  return worth;
}

double RegionCredit::per_million_tokens() const {
  return tokens > 0 ? window.value / static_cast<double>(tokens) * 1e6 : 0;
}

std::optional<double> RegionCredit::per_cost() const {
  if (!cost || *cost <= 0) return std::nullopt;
  return window.value / *cost;
}

// ---- For people ----

namespace {

using Row = std::vector<std::string>;

std::string error_text(const std::optional<double>& error) {
  return error ? fmt::format("{:.6f}", *error) : "?";
}

bool has_costs(const CreditTable& table) {
  return std::ranges::any_of(table.regions,
                             [](const RegionCredit& one) { return one.cost.has_value(); });
}

Row header_of(const CreditTable& table) {
  Row header{"region", "rounds", "tokens", "sent", "worth", "± batches", "per M tokens"};
  if (has_costs(table)) {
    header.emplace_back("cost");
    header.emplace_back("per unit of cost");
  }
  for (const char* name : {"singly", "± batches", "± rounds"}) header.emplace_back(name);
  return header;
}

std::vector<Row> rows_of(const CreditTable& table) {
  const bool priced = has_costs(table);
  std::vector<Row> rows;
  for (const RegionCredit& one : table.regions) {
    Row row{one.region,
            format_count(one.rounds),
            format_count(one.tokens),
            format_bytes(static_cast<double>(one.sent_bytes)),
            fmt::format("{:+.6f}", one.window.value),
            error_text(one.window.batches_error),
            fmt::format("{:+.6g}", one.per_million_tokens())};
    if (priced) {
      row.push_back(one.cost ? format_money(*one.cost) : "");
      const auto per_cost = one.per_cost();
      row.push_back(per_cost ? fmt::format("{:+.6g}", *per_cost) : "");
    }
    row.push_back(fmt::format("{:+.6f}", one.singly.value));
    row.push_back(error_text(one.singly.batches_error));
    row.push_back(error_text(one.singly.rounds_error));
    rows.push_back(std::move(row));
  }
  return rows;
}

// As they look: "±" has two bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char one) { return (static_cast<unsigned char>(one) & 0xC0U) != 0x80U; }));
}

std::vector<std::string> aligned(std::vector<Row> rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width_of(row[i]), ' ');
      line += (i > 0 ? "  " : "") + (i == 0 ? row[i] + space : space + row[i]);
    }
    lines.push_back(line);
  }
  return lines;
}

std::string measured_text(const CreditTable& table) {
  return fmt::format(
      "Credit for rounds {} to {}, by the loss on {}: {} sequences in {} batch{}; after these "
      "rounds it is {:.6f} nats per token",
      table.first, table.last, table.data, format_count(table.sequences),
      format_count(table.batches), table.batches == 1 ? "" : "es", table.loss);
}

const std::vector<std::string> kMeaning = {
    "worth: how much higher that loss would be without the region's contributions to these rounds; "
    "singly: the sum of what each was worth in its own round. ± is one standard error.",
    "This is an estimate of first order: the other regions' contributions are held as they were "
    "made, but without the region they would have trained from other parameters. No ± covers that.",
};

}  // namespace

std::vector<std::string> credit_lines(const CreditTable& table) {
  std::vector<Row> rows = rows_of(table);
  rows.insert(rows.begin(), header_of(table));
  std::vector<std::string> lines{measured_text(table)};
  for (std::string& line : aligned(std::move(rows))) lines.push_back(std::move(line));
  lines.insert(lines.end(), kMeaning.begin(), kMeaning.end());
  return lines;
}

std::string credit_html(const CreditTable& table) {
  std::string html = "<h2>Credit</h2>\n<p>" + escape_html(measured_text(table)) + ".</p>\n" +
                     html_table(header_of(table), rows_of(table));
  for (const std::string& sentence : kMeaning) html += "<p>" + escape_html(sentence) + "</p>\n";
  return html;
}

// ---- JSON ----

namespace {

using Json = nlohmann::json;

Json json_of(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

Json json_of(const Worth& worth) {
  return {{"value", worth.value},
          {"batches_error", json_of(worth.batches_error)},
          {"rounds_error", json_of(worth.rounds_error)}};
}

Json json_of(const RegionCredit& one) {
  Json by_round = Json::array();
  for (const auto& [round, value] : one.by_round)
    by_round.push_back({{"round", round}, {"worth", value}});
  return {{"region", one.region},
          {"rounds", one.rounds},
          {"tokens", one.tokens},
          {"sent_bytes", one.sent_bytes},
          {"cost", json_of(one.cost)},
          {"worth", json_of(one.window)},
          {"worth_per_million_tokens", one.per_million_tokens()},
          {"worth_per_cost", json_of(one.per_cost())},
          {"singly", json_of(one.singly)},
          {"by_round", by_round}};
}

Worth worth_in(const Json& json, const char* name) {
  const Json worth = object_in(json, name);
  return {get<double>(worth, "value"), number_in(worth, "batches_error"),
          number_in(worth, "rounds_error")};
}

RegionCredit region_in_json(const Json& json) {
  RegionCredit one{.region = get<std::string>(json, "region"),
                   .rounds = get<std::uint64_t>(json, "rounds"),
                   .tokens = get<std::uint64_t>(json, "tokens"),
                   .sent_bytes = get<std::uint64_t>(json, "sent_bytes"),
                   .cost = number_in(json, "cost"),
                   .window = worth_in(json, "worth"),
                   .singly = worth_in(json, "singly"),
                   .by_round = {}};
  const auto by_round = json.find("by_round");
  for (const Json& round : by_round != json.end() ? *by_round : Json::array())
    one.by_round.emplace_back(get<std::uint64_t>(round, "round"), get<double>(round, "worth"));
  return one;
}

}  // namespace

std::string credit_json(const CreditTable& table) {
  Json regions = Json::array();
  for (const RegionCredit& one : table.regions) regions.push_back(json_of(one));
  return Json{{"run_id", table.run_id},   {"first_round", table.first},
              {"last_round", table.last}, {"val_loss", table.loss},
              {"data", table.data},       {"sequences", table.sequences},
              {"batches", table.batches}, {"regions", regions}}
      .dump(2);
}

std::optional<CreditTable> parse_credit(const std::string& text) {
  const auto json = parse_object(text);
  if (!json || !json->contains("regions") || !(*json)["regions"].is_array()) return std::nullopt;
  CreditTable table{.run_id = get<std::string>(*json, "run_id"),
                    .first = get<std::uint64_t>(*json, "first_round"),
                    .last = get<std::uint64_t>(*json, "last_round"),
                    .loss = get<double>(*json, "val_loss"),
                    .data = get<std::string>(*json, "data"),
                    .sequences = get<std::uint64_t>(*json, "sequences"),
                    .batches = get<std::uint64_t>(*json, "batches"),
                    .regions = {}};
  for (const Json& one : (*json)["regions"])
    if (one.is_object()) table.regions.push_back(region_in_json(one));
  if (table.regions.empty()) return std::nullopt;
  return table;
}

}  // namespace causeway::run
