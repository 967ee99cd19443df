#include "apps/run/region/region_files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <system_error>

#include "apps/run/page/format.h"
#include "apps/run/region/parse_object.h"
#include "diloco/files/file_io.h"

namespace causeway::run {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

std::string of_period(const std::string& period) {
  return period == "run" ? " for the whole run" : " a " + period;
}

}  // namespace

std::optional<EgressStatus> egress_of(const Json& status) {
  const Json json = object_in(status, "egress");
  const std::optional<double> cost = number_in(json, "cost");
  if (!cost) return std::nullopt;
  const double step = get<double>(object_in(status, "progress"), "step");
  const double steps = get<double>(status, "steps");
  const bool goes_on = step > 0 && !get<bool>(status, "finished");
  EgressStatus egress{.region = get<std::string>(status, "region"),
                      .cost = *cost,
                      .at_end = goes_on ? *cost * std::max(1.0, steps / step) : *cost,
                      .run_at_end = number_in(json, "run_forecast")};
  const Json said = object_in(json, "said");
  for (const auto& [region, paid] : said.items()) {
    if (paid.is_number()) egress.said[region] = paid.get<double>();
  }
  const auto limits = json.find("limits");
  if (limits == json.end() || !limits->is_array()) return egress;
  for (const Json& limit : *limits) {
    if (!limit.is_object()) continue;
    egress.limits.push_back({get<std::string>(limit, "period"), get<double>(limit, "limit"),
                             get<double>(limit, "spent"), get<double>(limit, "forecast")});
  }
  return egress;
}

std::optional<RunEgress> sum(const std::vector<EgressStatus>& regions) {
  if (regions.empty()) return std::nullopt;
  RunEgress run;
  std::optional<double> agreed;
  std::map<std::string, double> costs;
  double seen = 0, seen_at_end = 0;
  for (const EgressStatus& region : regions) {
    seen += region.cost;
    seen_at_end += region.at_end;
    costs[region.region] = std::max(costs[region.region], region.cost);
    for (const auto& [name, cost] : region.said) costs[name] = std::max(costs[name], cost);
    if (!region.run_at_end || region.run_at_end < agreed) continue;
    agreed = region.run_at_end;
    run.limits = region.limits;
  }
  for (const auto& [name, cost] : costs) run.cost += cost;
  const double growth = seen > 0 ? seen_at_end / seen : 1;
  run.at_end = agreed ? std::max(*agreed, run.cost) : growth * run.cost;
  return run;
}

std::string to_string(const RunEgress& egress) {
  std::string text = format_money(egress.cost) + " so far, about " + format_money(egress.at_end) +
                     " at the end of the run";
  for (const EgressLimit& limit : egress.limits) {
    text += "; " + format_money(limit.spent) + " of " + format_money(limit.limit) +
            of_period(limit.period);
    if (limit.period != "run") text += ", about " + format_money(limit.forecast) + " at its end";
  }
  return text;
}

namespace {

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void append_lines(const std::filesystem::path& file, const std::vector<OrderedJson>& objects) {
  std::string lines;
  for (const OrderedJson& json : objects) lines += json.dump() + "\n";
  diloco::append_to_file(file, lines);
}

}  // namespace

bool was_started(const std::filesystem::path& region_directory) {
  return std::filesystem::exists(region_directory / "status.json");
}

std::optional<RegionStatus> read_status(const std::filesystem::path& region_directory) {
  const auto json = parse_object(read_text_file(region_directory / "status.json"));
  if (!json) return std::nullopt;
  const Json progress = object_in(*json, "progress");
  RegionStatus status;
  status.pid = get<std::uint64_t>(*json, "pid");
  status.version = get<std::uint64_t>(*json, "version");
  status.step = get<std::uint64_t>(progress, "step");
  status.loss = get<double>(progress, "loss");
  status.tokens_per_s = get<double>(progress, "tokens_per_s");
  status.mfu = get<double>(progress, "mfu");
  status.val_loss = number_in(progress, "val_loss");
  status.phase = get<std::string>(progress, "phase");
  status.state = status.phase;
  status.finished = get<bool>(*json, "finished");
  const std::string waiting = get<std::string>(*json, "waiting");
  if (!waiting.empty()) status.state = "waits for " + waiting;
  status.k = get<std::uint64_t>(*json, "k");
  status.k_change = get<std::string>(*json, "k_change");
  status.wan_tx_bytes = get<std::uint64_t>(*json, "wan_tx_bytes");
  status.wan_rx_bytes = get<std::uint64_t>(*json, "wan_rx_bytes");
  const Json links = object_in(*json, "links");
  for (const auto& [peer, link] : links.items()) {
    if (!link.is_object()) continue;
    status.links[peer] = {get<bool>(link, "up"), get<std::uint64_t>(link, "tx_bytes"),
                          get<std::uint64_t>(link, "rx_bytes"), get<double>(link, "round_trip_ms"),
                          get<std::string>(link, "via")};
  }
  status.egress = egress_of(*json);
  return status;
}

std::vector<Event> read_events(const std::filesystem::path& file) {
  std::vector<Event> events;
  for (std::string& line : lines_of(file)) {
    const auto json = parse_object(line);
    if (!json) continue;
    events.push_back({json->contains("participants") ? "round" : get<std::string>(*json, "event"),
                      get<std::uint64_t>(*json, "round"), get<std::string>(*json, "region"),
                      get<std::string>(*json, "state"), std::move(line)});
  }
  return events;
}

std::optional<std::uint16_t> read_listening_port(const std::filesystem::path& region_directory) {
  const std::string text = read_text_file(region_directory / "listening_port");
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || port == 0) return std::nullopt;
  return port;
}

void append_restart(const std::filesystem::path& file, const Restart& restart) {
  append_lines(file, {{{"event", "restart"},
                       {"process", restart.process},
                       {"round", restart.round},
                       {"cause", restart.cause},
                       {"time_s", restart.time_s}}});
}

std::vector<Restart> read_restarts(const std::filesystem::path& file) {
  std::vector<Restart> restarts;
  for (std::string& line : lines_of(file)) {
    const auto json = parse_object(line);
    if (!json) continue;
    restarts.push_back({get<std::string>(*json, "process"), get<std::uint64_t>(*json, "round"),
                        get<std::string>(*json, "cause"), get<double>(*json, "time_s"),
                        std::move(line)});
  }
  return restarts;
}

void append_samples(const std::filesystem::path& file, const std::vector<Sample>& samples) {
  std::vector<OrderedJson> lines;
  for (const Sample& sample : samples) {
    lines.push_back({{"time_s", sample.time_s},
                     {"region", sample.region},
                     {"step", sample.step},
                     {"version", sample.version},
                     {"wan_tx_bytes", sample.wan_tx_bytes},
                     {"loss", sample.loss},
                     {"tokens_per_s", sample.tokens_per_s},
                     {"val_loss", sample.val_loss ? OrderedJson(*sample.val_loss) : nullptr}});
  }
  append_lines(file, lines);
}

std::vector<Sample> read_samples(const std::filesystem::path& file) {
  std::vector<Sample> samples;
  for (const std::string& line : lines_of(file)) {
    const auto json = parse_object(line);
    if (!json) continue;
    samples.push_back({get<double>(*json, "time_s"), get<std::string>(*json, "region"),
                       get<std::uint64_t>(*json, "step"), get<std::uint64_t>(*json, "version"),
                       get<std::uint64_t>(*json, "wan_tx_bytes"), get<double>(*json, "loss"),
                       get<double>(*json, "tokens_per_s"), number_in(*json, "val_loss")});
  }
  return samples;
}

std::string read_text_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_text_file(const std::filesystem::path& file, const std::string& text) {
  diloco::replace_file(file, text, diloco::Durability::visible);
}

}  // namespace causeway::run
