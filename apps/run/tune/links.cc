#include "apps/run/tune/links.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"
#include "apps/run/region/region_files.h"

namespace causeway::run {
namespace {

constexpr std::size_t kRingOrdersMax = 8;  // regions whose orders are all tried

std::optional<MeasuredLink> measured_link(const std::filesystem::path& run, const std::string& from,
                                          const std::string& to) {
  const auto json =
      nlohmann::json::parse(read_text_file(run / "regions" / from / "status.json"), nullptr, false);
  const auto path = nlohmann::json::json_pointer("/links/" + to);
  if (!json.is_object() || !json.contains(path) || !json.at(path).is_object()) return std::nullopt;
  const auto number = [&link = json.at(path)](const char* name) {
    const auto found = link.find(name);
    return found != link.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  return MeasuredLink{number("round_trip_ms"), number("rate_mbit_s"), number("rate_p50_mbit_s"),
                      number("rate_p05_mbit_s")};
}

double slowest_edge_s(const inter::LinkMatrix& links, const std::vector<std::string>& order,
                      double bytes) {
  double slowest_s = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& link = links.at({order[i], order[(i + 1) % order.size()]});
    if (link.bytes_per_s <= 0) return std::numeric_limits<double>::infinity();
    slowest_s = std::max(slowest_s, link.latency_s + bytes / link.bytes_per_s);
  }
  return slowest_s;
}

}  // namespace

wan_sim::Scenario links_of_profile(const std::filesystem::path& file,
                                   const std::vector<std::string>& regions) {
  wan_sim::Scenario scenario = wan_sim::load_scenario(file);
  for (const std::string& region : regions) {
    if (std::ranges::find(scenario.regions, region) != scenario.regions.end()) continue;
    throw ConfigError(file.string() + ": has no region '" + region +
                      "'; the links of a run join all its regions");
  }
  return scenario;
}

std::map<std::pair<std::string, std::string>, MeasuredLink> measured_links(
    const std::filesystem::path& run, const std::vector<std::string>& regions) {
  std::map<std::pair<std::string, std::string>, MeasuredLink> links;
  for (const std::string& from : regions) {
    for (const std::string& to : regions) {
      if (from == to) continue;
      auto link = measured_link(run, from, to);
      const auto back = measured_link(run, to, from);
      if (link && back && link->rate_mbit_s <= 0) {
        const double round_trip_ms = link->round_trip_ms;
        link = back;
        link->round_trip_ms = round_trip_ms;
      }
      if (!link || link->rate_mbit_s <= 0) {
        throw ConfigError(run.string() + ": its status.json files have no rate of the link from " +
                          from + " to " + to +
                          ", which takes exchanges of 1 MiB or more; give --links PROFILE instead");
      }
      links[{from, to}] = *link;
    }
  }
  return links;
}

std::string links_text_of_run(const std::filesystem::path& run,
                              const std::vector<std::string>& regions) {
  std::string text = "regions = [";
  for (const std::string& region : regions) text += "'" + region + "', ";
  text += "]\n";
  for (const auto& [pair, link] : measured_links(run, regions)) {
    text += "[[link]]\nfrom = '" + pair.first + "'\nto = '" + pair.second +
            "'\ndelay_ms = " + std::to_string(link.round_trip_ms / 2) +
            "\nrate_mbit_s = " + std::to_string(link.rate_mbit_s) + "\n";
  }
  return text;
}

wan_sim::Scenario links_of_run(const std::filesystem::path& run,
                               const std::vector<std::string>& regions) {
  return wan_sim::parse_scenario(links_text_of_run(run, regions), run / "status.json");
}

inter::LinkMatrix link_matrix(const wan_sim::Scenario& scenario,
                              const std::vector<std::string>& regions) {
  inter::LinkMatrix matrix;
  for (const auto& [pair, profile] : scenario.links) {
    const bool ours = std::ranges::find(regions, pair.first) != regions.end() &&
                      std::ranges::find(regions, pair.second) != regions.end();
    if (!ours) continue;
    matrix[pair] = {std::chrono::duration<double>(profile.delay).count(), profile.rate_bytes_per_s};
  }
  return matrix;
}

Ring ring_all_reduce(const inter::LinkMatrix& links, const std::vector<std::string>& regions,
                     double gradient_bytes) {
  Ring best{.order = regions};
  if (regions.size() < 2) return best;
  std::vector<std::string> order = regions;
  std::ranges::sort(order);
  const auto n = static_cast<double>(order.size());
  const double hops = 2 * (n - 1);
  best = {order, hops * slowest_edge_s(links, order, gradient_bytes / n),
          hops * gradient_bytes / n};
  if (order.size() > kRingOrdersMax) return best;
  // The first region stays: a ring has no beginning.
  while (std::next_permutation(order.begin() + 1, order.end())) {
    const double seconds = hops * slowest_edge_s(links, order, gradient_bytes / n);
    if (seconds >= best.seconds) continue;
    best.order = order;
    best.seconds = seconds;
  }
  return best;
}

}  // namespace causeway::run
