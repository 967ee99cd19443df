// What traffic between regions costs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/config/config.h"

namespace causeway::run {

// Money per 10^9 bytes that leave a region for another. Missing pairs cost `otherwise`.
struct Prices {
  std::map<std::pair<std::string, std::string>, double> per_gb;
  double otherwise = 0;
  bool has_otherwise = false;
  bool given = false;

  double of(const std::string& from, const std::string& to, double bytes) const;
  // Of what one region sends.
  diloco::EgressPrices from(const std::string& region) const;
};

// TOML: default_per_gb = 0.09, and [[price]] tables with from, to and per_gb. Throws ConfigError
// for anything else in it, and for the name of a region that is not among `known`.
Prices load_prices(const std::filesystem::path& file, const std::vector<std::string>& known);

// Of links.prices; none are given without it. Throws ConfigError if there is a budget and a pair of
// members has no price: what is not known cannot be kept.
Prices prices_of(const Config& config);

// For what is only predicted: of `file`, or if it is empty, of links.prices. Regions and witness of
// the configuration are known too. What the configuration names may lie on another host: where that
// cannot be used, no prices are given, and `warnings` says why.
Prices prices_to_predict_with(const std::filesystem::path& file, const Config& config,
                              std::vector<std::string> known, std::vector<std::string>& warnings);

}  // namespace causeway::run
