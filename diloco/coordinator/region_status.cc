#include "diloco/coordinator/region_status.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <concepts>
#include <limits>
#include <set>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "diloco/files/checked_file.h"
#include "diloco/worker/progress_json.h"

namespace causeway::diloco {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// ---- Keys, in their order ----

template <typename Each>
void each_key(const LinkStatus&, Each each) {
  using L = LinkStatus;
  each("up", &L::up);
  each("via", &L::via);
  each("tx_bytes", &L::tx_bytes);
  each("rx_bytes", &L::rx_bytes);
  each("round_trip_ms", &L::round_trip_ms);
  each("connects", &L::connects);
  each("data_connections", &L::data_connections);
  each("rate_mbit_s", &L::rate_mbit_s);
  each("rate_p50_mbit_s", &L::rate_p50_mbit_s);
  each("rate_p05_mbit_s", &L::rate_p05_mbit_s);
  each("stream_rate_mbit_s", &L::stream_rate_mbit_s);
  each("loss", &L::loss);
}

template <typename Each>
void each_key(const LinkTotals&, Each each) {
  using L = LinkTotals;
  each("tx_bytes", &L::tx_bytes);
  each("rx_bytes", &L::rx_bytes);
  each("connects", &L::connects);
}

template <typename Each>
void each_key(const EgressLimit&, Each each) {
  using E = EgressLimit;
  each("period", &E::period);
  each("limit", &E::limit);
  each("spent", &E::spent);
  each("forecast", &E::forecast);
  each("round_cost", &E::round_cost);
  each("until_unix_s", &E::until_unix_s);
}

template <typename Each>
void each_key(const EgressStatus&, Each each) {
  using E = EgressStatus;
  each("cost", &E::cost);
  each("run_cost", &E::run_cost);
  each("said", &E::said);
  each("run_forecast", &E::run_forecast);
  each("limits", &E::limits);
  each("pauses", &E::pauses);
}

template <typename Each>
void each_key(const DataStatus&, Each each) {
  each("sha256", &DataStatus::whole);
  each("sample_sha256", &DataStatus::sample);
}

template <typename Each>
void each_key(const DataShare&, Each each) {
  each("index", &DataShare::index);
  each("count", &DataShare::count);
  each("pass", &DataShare::pass);
  each("begin", &DataShare::begin);
}

template <typename Each>
void each_key(const RegionStatus&, Each each) {
  using S = RegionStatus;
  each("pid", &S::pid);
  each("run_id", &S::run_id);
  each("settings_sha256", &S::settings_sha256);
  each("version", &S::version);
  each("round", &S::round);
  each("workers", &S::workers);
  each("missing_ranks", &S::missing_ranks);
  each("degraded", &S::degraded);
  each("listening_port", &S::listening_port);
  each("waiting", &S::waiting);
  each("abstains", &S::abstains);
  each("leader", &S::leader);
  each("term", &S::term);
  each("share", &S::share);
  each("data", &S::data);
  each("steps", &S::steps);
  each("k", &S::k);
  each("k_change", &S::k_change);
  each("progress", &S::progress);
  each("loss_not_finite", &S::loss_not_finite);
  each("reported_unix_s", &S::reported_unix_s);
  each("worker_silent_s", &S::worker_silent_s);
  each("wan_tx_bytes", &S::wan_tx_bytes);
  each("wan_rx_bytes", &S::wan_rx_bytes);
  each("links", &S::links);
  each("removed_links", &S::removed_links);
  each("egress", &S::egress);
  each("spool_bytes", &S::spool_bytes);
  each("spool_capacity_bytes", &S::spool_capacity_bytes);
  each("rounds_kept", &S::rounds_kept);
  each("falls_behind", &S::falls_behind);
  each("applied_unix_s", &S::applied_unix_s);
  each("left_s", &S::left_s);
  each("certificates_until_unix_s", &S::certificates_until_unix_s);
  each("last_error", &S::last_error);
  each("finished", &S::finished);
}

// ---- To JSON ----

template <typename Value>
concept HasKeys = requires(const Value& value) {
  each_key(value, [](const char*, auto) {});
};

template <typename Value>
requires(std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) OrderedJson
    json_of(const Value& value) {
  return value;
}
OrderedJson json_of(const Progress& progress) {
  return to_json(progress);
}
template <HasKeys Value>
OrderedJson json_of(const Value& value);
template <typename Value>
OrderedJson json_of(const std::optional<Value>& value) {
  return value ? json_of(*value) : OrderedJson(nullptr);
}
template <typename Value>
OrderedJson json_of(const std::vector<Value>& values) {
  OrderedJson list = OrderedJson::array();
  for (const Value& value : values) list.push_back(json_of(value));
  return list;
}
template <typename Value>
OrderedJson json_of(const std::map<std::string, Value>& values) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, value] : values) json[name] = json_of(value);
  return json;
}
template <HasKeys Value>
OrderedJson json_of(const Value& value) {
  OrderedJson json = OrderedJson::object();
  each_key(value, [&](const char* key, auto member) { json[key] = json_of(value.*member); });
  return json;
}

// ---- From JSON ----

// What is of another type leaves the value as it is.
void take(const Json& json, bool& value) {
  if (json.is_boolean()) value = json.get<bool>();
}
void take(const Json& json, std::string& value) {
  if (json.is_string()) value = json.get<std::string>();
}
void take(const Json& json, double& value) {
  if (json.is_number()) value = json.get<double>();
}
template <std::unsigned_integral Value>
void take(const Json& json, Value& value) {
  if (json.is_number_unsigned() && json.get<std::uint64_t>() <= std::numeric_limits<Value>::max())
    value = json.get<Value>();
}
void take(const Json& json, Progress& progress) {
  if (json.is_object()) progress = progress_of(json);
}
template <HasKeys Value>
void take(const Json& json, Value& value);

// Whether it can be a Value at all.
template <typename Value>
bool is_a(const Json& json) {
  if constexpr (HasKeys<Value>) return json.is_object();
  if constexpr (std::is_arithmetic_v<Value>) return json.is_number();
  return json.is_string();
}
template <typename Value>
void take(const Json& json, std::optional<Value>& value) {
  if (is_a<Value>(json)) take(json, value.emplace());
}
template <typename Value>
void take(const Json& json, std::vector<Value>& values) {
  if (!json.is_array()) return;
  for (const Json& item : json) {
    if (is_a<Value>(item)) take(item, values.emplace_back());
  }
}
template <typename Value>
void take(const Json& json, std::map<std::string, Value>& values) {
  if (!json.is_object()) return;
  for (const auto& [name, item] : json.items()) {
    if (is_a<Value>(item)) take(item, values[name]);
  }
}
template <HasKeys Value>
void take(const Json& json, Value& value) {
  if (!json.is_object()) return;
  each_key(value, [&](const char* key, auto member) {
    if (const auto found = json.find(key); found != json.end()) take(*found, value.*member);
  });
}

double in_mbit(double bytes_per_s) {
  return std::round(8e-3 * bytes_per_s) / 1e3;
}

// As earlier versions wrote it, which did not say it.
std::optional<double> left_by_means(const RegionStatus& status) {
  const auto step = static_cast<double>(status.progress.step());
  const auto steps = static_cast<double>(status.steps);
  const double spent_s = status.progress.compute_s() + status.progress.wait_s();
  if (step <= 0 || spent_s <= 0 || steps <= 0) return std::nullopt;
  return spent_s / step * std::max(0.0, steps - step);
}

}  // namespace

LinkStatus link_status(const inter::LinkStats& link) {
  return {.up = link.up,
          .via = link.via,
          .tx_bytes = link.tx_bytes,
          .rx_bytes = link.rx_bytes,
          .round_trip_ms = std::chrono::duration<double, std::milli>(link.round_trip).count(),
          .connects = link.connects,
          .data_connections = link.data_connections,
          .rate_mbit_s = in_mbit(link.rate_bytes_per_s),
          .rate_p50_mbit_s = in_mbit(link.rate_p50_bytes_per_s),
          .rate_p05_mbit_s = in_mbit(link.rate_p05_bytes_per_s),
          .stream_rate_mbit_s = in_mbit(link.stream_rate_bytes_per_s),
          .loss = std::round(1e6 * link.loss) / 1e6};
}

EgressLimit egress_limit(const EgressForecast& forecast) {
  static constexpr std::array kPeriods = {"day", "month", "run"};
  const Spending& spending = forecast.spending;
  return {.period = kPeriods[static_cast<std::size_t>(spending.period)],
          .limit = spending.limit,
          .spent = spending.spent,
          .forecast = forecast.at_end,
          .round_cost = spending.round_cost,
          .until_unix_s = spending.until_unix_s};
}

DataStatus data_status(const DataDigest& data) {
  DataStatus status{.whole = {}, .sample = to_hex(data.sample)};
  if (data.whole) status.whole = to_hex(*data.whole);
  return status;
}

OrderedJson to_json(const RegionStatus& status) {
  OrderedJson json = {{"region", status.region}, {"format", kJsonFormat}, {"xxh3", kNoChecksum}};
  json.update(json_of(status));
  return json;
}

std::string speaker_of(std::uint32_t workers, const std::vector<std::uint32_t>& missing_ranks) {
  if (workers <= 1) return "its worker";
  // A status comes from another region, which may name any number of ranks.
  const std::set<std::uint32_t> missing(missing_ranks.begin(), missing_ranks.end());
  std::uint32_t rank = 0;
  while (missing.contains(rank)) ++rank;
  return "rank " + std::to_string(rank) + " of its " + std::to_string(workers) + " workers";
}

std::optional<RegionStatus> parse_region_status(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  RegionStatus status;
  take(json, status);
  if (const auto region = json.find("region"); region != json.end()) take(*region, status.region);
  if (!json.contains("left_s")) status.left_s = left_by_means(status);
  return status;
}

}  // namespace causeway::diloco
