#include "apps/run/region/region_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <ios>
#include <iterator>
#include <map>
#include <system_error>

#include "apps/run/page/format.h"
#include "apps/run/region/parse_object.h"
#include "diloco/files/file_io.h"

namespace causeway::run {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string of_period(const std::string& period) {
  return period == "run" ? " for the whole run" : " a " + period;
}

// Of what is spent in proportion to steps.
double growth_to_the_end(const RegionStatus& region) {
  const auto step = static_cast<double>(region.progress.step());
  const bool goes_on = step > 0 && !region.finished;
  return goes_on ? std::max(1.0, static_cast<double>(region.steps) / step) : 1;
}

}  // namespace

std::optional<RunEgress> run_egress(const std::vector<RegionStatus>& regions) {
  RunEgress run;
  std::optional<double> agreed;
  std::map<std::string, double> costs;
  double seen = 0, seen_at_end = 0;
  for (const RegionStatus& region : regions) {
    if (!region.egress) continue;
    const diloco::EgressStatus& egress = *region.egress;
    seen += egress.cost;
    seen_at_end += egress.cost * growth_to_the_end(region);
    costs[region.region] = std::max(costs[region.region], egress.cost);
    for (const auto& [name, cost] : egress.said) costs[name] = std::max(costs[name], cost);
    if (!egress.run_forecast || egress.run_forecast < agreed) continue;
    agreed = egress.run_forecast;
    run.limits = egress.limits;
  }
  if (costs.empty()) return std::nullopt;
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

[[noreturn]] void cannot_read(const std::filesystem::path& file) {
  throw std::system_error(std::make_error_code(std::errc::io_error),
                          "cannot read " + file.string());
}

// A stream that fails in the middle looks like one that ends.
std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (stream.bad()) cannot_read(file);
  return lines;
}

void append_lines(const std::filesystem::path& file, const std::vector<OrderedJson>& objects) {
  std::string lines;
  for (const OrderedJson& json : objects) lines += json.dump() + "\n";
  diloco::append_to_file(file, lines);
}

}  // namespace

bool was_started(const std::filesystem::path& region_directory) {
  std::error_code unreadable;
  return std::filesystem::exists(region_directory / "status.json", unreadable) || unreadable;
}

// A follower that was started in a region's directory by mistake left its lock there.
bool is_followers(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / "follow.lock") && !was_started(directory);
}

bool has_coordinator(const std::filesystem::path& region_directory) {
  return diloco::is_locked(region_directory / "ledger" / "lock");
}

std::filesystem::path regions_folder(const std::filesystem::path& run) {
  std::error_code unreadable;
  return std::filesystem::is_directory(run / "regions", unreadable) ? run / "regions" : run;
}

std::vector<std::filesystem::path> regions_in(
    const std::filesystem::path& run,
    const std::function<bool(const std::filesystem::path&)>& is_region) {
  std::vector<std::filesystem::path> regions;
  const std::filesystem::path folder = regions_folder(run);
  if (!std::filesystem::is_directory(folder)) return regions;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (is_region(entry.path())) regions.push_back(entry.path());
  std::ranges::sort(regions);
  return regions;
}

std::optional<RegionStatus> read_status(const std::filesystem::path& region_directory) {
  return diloco::parse_region_status(read_text_file(region_directory / "status.json"));
}

std::optional<Event> parse_event(std::string line) {
  const auto json = parse_object(line);
  if (!json) return std::nullopt;
  return Event{json->contains("participants") ? "round" : get<std::string>(*json, "event"),
               get<std::uint64_t>(*json, "round"), get<std::string>(*json, "region"),
               get<std::string>(*json, "state"), std::move(line)};
}

std::vector<Event> read_events(const std::filesystem::path& file) {
  std::vector<Event> events;
  for (std::string& line : lines_of(file))
    if (auto event = parse_event(std::move(line))) events.push_back(*std::move(event));
  return events;
}

std::map<std::uint64_t, std::string> states_by_round(const std::vector<Event>& events) {
  std::map<std::uint64_t, std::string> states;
  for (const Event& event : events) {
    if (event.event == "round") states[event.round] = event.state;
  }
  return states;
}

std::optional<std::uint16_t> read_listening_port(const std::filesystem::path& region_directory) {
  std::string text;
  try {
    text = read_text_file(region_directory / "listening_port");
  } catch (const std::system_error&) {  // whoever dials tries again
    return std::nullopt;
  }
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || port == 0) return std::nullopt;
  return port;
}

void append_restarts(const std::filesystem::path& file, const std::vector<Restart>& restarts) {
  std::vector<OrderedJson> lines;
  for (const Restart& restart : restarts) {
    lines.push_back({{"event", "restart"},
                     {"process", restart.process},
                     {"round", restart.round},
                     {"cause", restart.cause},
                     {"time_s", restart.time_s}});
  }
  append_lines(file, lines);
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

std::optional<double> loss_of(const diloco::Progress& progress) {
  if (!progress.has_loss() || !std::isfinite(progress.loss())) return std::nullopt;
  return progress.loss();
}

void append_samples(const std::filesystem::path& file, const std::vector<Sample>& samples) {
  std::vector<OrderedJson> lines;
  for (const Sample& sample : samples) {
    lines.push_back({{"time_s", sample.time_s},
                     {"region", sample.region},
                     {"step", sample.step},
                     {"version", sample.version},
                     {"wan_tx_bytes", sample.wan_tx_bytes},
                     {"loss", sample.loss ? OrderedJson(*sample.loss) : nullptr},
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
                       get<std::uint64_t>(*json, "wan_tx_bytes"), number_in(*json, "loss"),
                       get<double>(*json, "tokens_per_s"), number_in(*json, "val_loss")});
  }
  return samples;
}

std::string read_text_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  try {
    return {std::istreambuf_iterator<char>(stream), {}};
  } catch (const std::ios_base::failure&) {  // which does not know the file's name
    cannot_read(file);
  }
}

void write_text_file(const std::filesystem::path& file, const std::string& text) {
  diloco::replace_file(file, text, diloco::Durability::visible);
}

}  // namespace causeway::run
