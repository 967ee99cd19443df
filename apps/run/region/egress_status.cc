#include "apps/run/region/egress_status.h"

#include <algorithm>

#include "apps/run/page/format.h"
#include "apps/run/region/parse_object.h"

namespace causeway::run {
namespace {

using Json = nlohmann::json;

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

}  // namespace causeway::run
