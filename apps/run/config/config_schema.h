// The one table of configuration keys: name, type, unit, default, what is allowed, meaning, and
// who must have the same value. Loading, printing and the reference page all walk this table,
// so a key exists in one place.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/run/config/config.h"

namespace causeway::run {

using Value = std::variant<std::int64_t, double, bool, std::string, std::vector<std::string>>;

// Who must have the same value, and is refused with another one. Every key says it; a test looks.
enum class SharedBy : std::uint8_t {
  unsaid,
  run,      // all regions: coordinators compare it when they meet
  region,   // a region's coordinator and all its workers: compared when a worker attaches
  process,  // nobody: each process may have its own
};

// A key of the whole run (Owner = Config) or of one region (Owner = RegionConfig).
template <typename Owner>
struct Key {
  std::string name;     // "model.layers"; of a region: "regions.workers"
  std::string type;     // "integer", "number", "text", "list of texts" or "true or false"
  std::string unit;     // empty: none
  std::string allowed;  // for people: "1 to 1024", "gpt2 or llama"
  std::string meaning;
  std::function<Value(const Owner&)> get;
  // Throws std::invalid_argument with "must be ..." if the value has the wrong type or is not
  // allowed.
  std::function<void(Owner&, const Value&)> set;
  std::string default_note;  // shown instead of the value of default_config()
  SharedBy shared_by = SharedBy::unsaid;
  bool required = false;
  bool built_in_only = false;  // of the built-in trainer: says nothing where a program trains
};

const std::vector<Key<Config>>& config_keys();
const std::vector<Key<RegionConfig>>& region_keys();

// Each of the config_schema_*.cc that it is named after.
void add_model_keys(std::vector<Key<Config>>& keys);
void add_data_keys(std::vector<Key<Config>>& keys);
void add_inner_keys(std::vector<Key<Config>>& keys);
void add_train_keys(std::vector<Key<Config>>& keys);
void add_ledger_keys(std::vector<Key<Config>>& keys);
void add_sync_keys(std::vector<Key<Config>>& keys);
void add_link_keys(std::vector<Key<Config>>& keys);
void add_budget_keys(std::vector<Key<Config>>& keys);
Key<RegionConfig> overlap_key();
Key<RegionConfig> region_data_key();

// Every key at its default; 0 and empty still stand for "derived from other keys" (see resolve in
// config.cc).
Config default_config();

std::string format_value(const Value& value);  // as TOML
std::string quote(std::string_view text);      // as a TOML basic string

}  // namespace causeway::run
