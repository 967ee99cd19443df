// What status.json says of the cost of egress, of one region and of the run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace causeway::run {

// In the currency of links.prices.
struct EgressLimit {
  std::string period;  // "day", "month" or "run"
  double limit = 0, spent = 0, forecast = 0;
};

struct EgressStatus {
  std::string region = {};
  double cost = 0;    // of this region, since the run began
  double at_end = 0;  // of the run, if it goes on as it did
  // Where there is a budget.
  std::optional<double> run_at_end = {};  // of all regions
  std::vector<EgressLimit> limits = {};
  std::map<std::string, double> said = {};  // by each region, as far as this one heard
};

// None: the region's coordinator knows no prices.
std::optional<EgressStatus> egress_of(const nlohmann::json& status);

// Of all regions together: of one that is not seen, what it said to the others.
struct RunEgress {
  double cost = 0, at_end = 0;
  std::vector<EgressLimit> limits = {};  // as the region says that has seen most
};
// None: no region knows its cost.
std::optional<RunEgress> sum(const std::vector<EgressStatus>& regions);
// "1.20 so far, about 4.80 at the end of the run; 0.80 of 1.00 a day, about 0.95 at its end"
std::string to_string(const RunEgress& egress);

}  // namespace causeway::run
