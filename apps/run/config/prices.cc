#include "apps/run/config/prices.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include <toml++/toml.h>

#include "apps/run/config/parsed_config.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

class PriceFile {
 public:
  PriceFile(const std::filesystem::path& file, const std::vector<std::string>& known)
      : file_(file), known_(known) {}

  Prices read(const toml::table& table) const {
    allow_only(table, {"default_per_gb", "price"});
    Prices prices;
    prices.given = true;
    prices.has_otherwise = table.contains("default_per_gb");
    if (prices.has_otherwise) prices.otherwise = price(table, "default_per_gb");
    if (!table.contains("price")) return prices;
    const toml::array* list = table["price"].as_array();
    if (list == nullptr || !list->is_array_of_tables()) refuse("price: must be [[price]] tables");
    for (const toml::node& node : *list) add(*node.as_table(), prices);
    return prices;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError(file_.string() + ": " + why);
  }

  void allow_only(const toml::table& table, const std::vector<std::string>& keys) const {
    for (const auto& [key, value] : table) {
      if (std::ranges::find(keys, key.str()) != keys.end()) continue;
      std::string all;
      for (const std::string& name : keys) inter::append_item(all, name);
      refuse("unknown key " + std::string(key.str()) + "; there are " + all);
    }
  }

  double price(const toml::table& table, const char* key) const {
    const std::optional<double> value = table[key].value<double>();
    if (!value || !(*value >= 0)) refuse(std::string(key) + ": must be a number, 0 or more");
    return *value;
  }

  std::string region(const toml::table& table, const char* key) const {
    const auto name = table[key].value_or(std::string());
    if (std::ranges::find(known_, name) == known_.end()) {
      refuse(std::string("[[price]] ") + key + " = \"" + name +
             "\" is neither a region of the run nor of the links");
    }
    return name;
  }

  void add(const toml::table& table, Prices& prices) const {
    const std::vector<std::string> keys = {"from", "to", "per_gb"};
    allow_only(table, keys);
    for (const std::string& key : keys) {
      if (!table.contains(key)) refuse("a [[price]] needs from, to and per_gb");
    }
    const std::string from = region(table, "from"), to = region(table, "to");
    const std::string pair = "[[price]] from = \"" + from + "\", to = \"" + to + "\" ";
    if (from == to && price(table, "per_gb") != 0)
      refuse(pair + "is no link: what stays in a region costs nothing");
    if (!prices.per_gb.emplace(std::pair(from, to), price(table, "per_gb")).second)
      refuse(pair + "is there twice; keep the one that is right");
  }

  const std::filesystem::path& file_;
  const std::vector<std::string>& known_;
};

}  // namespace

double Prices::of(const std::string& from, const std::string& to, double bytes) const {
  const auto found = per_gb.find({from, to});
  return bytes / 1e9 * (found == per_gb.end() ? otherwise : found->second);
}

diloco::EgressPrices Prices::from(const std::string& region) const {
  diloco::EgressPrices prices{.otherwise = otherwise, .given = given};
  for (const auto& [pair, price] : per_gb) {
    if (pair.first == region) prices.per_gb[pair.second] = price;
  }
  return prices;
}

Prices load_prices(const std::filesystem::path& file, const std::vector<std::string>& known) {
  try {
    return PriceFile(file, known).read(toml::parse(read_config(file)));
  } catch (const toml::parse_error& error) {
    throw ConfigError(file.string() + ":" + std::to_string(error.source().begin.line) + ": " +
                      std::string(error.description()));
  }
}

namespace {

std::vector<std::string> members_of(const Config& config) {
  std::vector<std::string> names = names_of(config);
  if (!config.witness.name.empty()) names.push_back(config.witness.name);
  return names;
}

}  // namespace

Prices prices_of(const Config& config) {
  if (config.links.prices.empty()) return {};
  const std::vector<std::string> known = members_of(config);
  const Prices prices = load_prices(config.links.prices, known);
  if (!config.budget.limits() || prices.has_otherwise) return prices;
  for (const std::string& from : known) {
    for (const std::string& to : known) {
      if (from == to || prices.per_gb.contains({from, to})) continue;
      throw ConfigError(config.links.prices.string() + ": there is a [budget], but no price from " +
                        from + " to " + to + "; add it, or default_per_gb for all the others");
    }
  }
  return prices;
}

Prices prices_to_predict_with(const std::filesystem::path& file, const Config& config,
                              std::vector<std::string> known, std::vector<std::string>& warnings) {
  std::ranges::copy(members_of(config), std::back_inserter(known));
  if (!file.empty()) return load_prices(file, known);
  if (config.links.prices.empty()) return {};
  try {
    return load_prices(config.links.prices, known);
  } catch (const ConfigError& error) {
    warnings.push_back("the cost of traffic is left out, because links.prices cannot be used (" +
                       std::string(error.what()) + "); --prices FILE names other prices");
    return {};
  }
}

}  // namespace causeway::run
