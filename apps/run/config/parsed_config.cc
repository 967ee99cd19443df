#include "apps/run/config/parsed_config.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <toml++/toml.h>

#include "apps/run/config/config_schema.h"
#include "apps/run/config/toml_advice.h"
#include "apps/run/config/unexpanded_home.h"
#include "inter/base/file.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

// The parser recurses over nested tables, and so do their destructors: "a.a.a. ..." must not
// exhaust the stack.
constexpr std::ptrdiff_t kDotsMax = 4'000;
constexpr std::size_t kFileBytesMax = 1 << 20;

bool too_many_dots(std::string_view text) {
  return std::count(text.begin(), text.end(), '.') > kDotsMax;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// "; did you mean 'x'?", or nothing if no known name is near.
std::string suggestion(std::string_view unknown, const std::vector<std::string>& known) {
  std::size_t best = std::max<std::size_t>(2, unknown.size() / 3) + 1;
  std::string_view nearest;
  if (unknown.size() > 100) return "";  // not a typing mistake
  // A key without its section, which several may have.
  std::string whole;
  for (const std::string& name : known)
    if (name.ends_with("." + std::string(unknown)))
      whole += (whole.empty() ? "'" : " or '") + name + "'";
  if (!whole.empty()) return "; did you mean " + whole + "?";
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(unknown, name);
    if (distance >= best) continue;
    best = distance;
    nearest = name;
  }
  return nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?";
}

template <typename Owner>
std::string must_be(const Key<Owner>& key) {
  const bool vowel = std::string_view("aeiou").find(key.type.front()) != std::string_view::npos;
  return "must be " + std::string(vowel ? "an " : "a ") + key.type + ": " + key.allowed;
}

template <typename Owner>
std::vector<std::string> names_of(const std::vector<Key<Owner>>& keys) {
  std::vector<std::string> names;
  for (const auto& key : keys) names.push_back(key.name);
  return names;
}

std::vector<std::string> all_key_names() {
  std::vector<std::string> names = names_of(config_keys());
  const std::vector<std::string> of_regions = names_of(region_keys());
  names.insert(names.end(), of_regions.begin(), of_regions.end());
  return names;
}

std::vector<std::string> section_names() {
  std::set<std::string> sections;
  for (const std::string& name : all_key_names()) sections.insert(name.substr(0, name.find('.')));
  return {sections.begin(), sections.end()};
}

// Of untrusted names: as much as a message needs.
std::string printable(std::string_view text) {
  return inter::printable_line(text.substr(0, 80));
}

template <typename Owner>
const Key<Owner>* find_key(const std::vector<Key<Owner>>& keys, std::string_view name) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

// Nothing for types that no key has, such as dates and tables.
std::optional<Value> to_value(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return Value(whole->get());
  if (const auto* real = node.as_floating_point()) return Value(real->get());
  if (const auto* flag = node.as_boolean()) return Value(flag->get());
  if (const auto* text = node.as_string()) return Value(text->get());
  const auto* array = node.as_array();
  if (!array) return std::nullopt;
  std::vector<std::string> list;
  for (const toml::node& item : *array) {
    const auto* text = item.as_string();
    if (!text) return std::nullopt;
    list.push_back(text->get());
  }
  return Value(std::move(list));
}

// In a path of a list, too.
bool names_home(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return is_unexpanded_home(*text);
  const auto* list = std::get_if<std::vector<std::string>>(&value);
  return list != nullptr && std::ranges::any_of(*list, is_unexpanded_home);
}

class Loader {
 public:
  explicit Loader(std::string file) : file_(std::move(file)) { result_.config = default_config(); }

  void apply_file(std::string_view text) {
    toml::table root;
    try {
      root = toml::parse(text, std::string_view(file_));
    } catch (const toml::parse_error& error) {
      throw ConfigError(file_ + ":" + std::to_string(error.source().begin.line) +
                        ": not valid TOML: " + printable(error.description()) +
                        toml_advice(error.description()));
    }
    for (const auto& [name, node] : root) {
      if (name.str() == "regions") {
        apply_regions(node);
      } else {
        apply_section(std::string(name.str()), name, node);
      }
    }
  }

  void apply_override(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      throw ConfigError("--set " + printable(text) + ": must be section.key=value");
    }
    const auto trimmed = [](std::string part) {
      part.erase(0, part.find_first_not_of(" \t"));
      part.erase(part.find_last_not_of(" \t") + 1);
      return part;
    };
    const std::string name = trimmed(text.substr(0, equals));
    const std::string value = trimmed(text.substr(equals + 1));
    const std::string place = "--set " + printable(name);
    if (name.rfind("regions.", 0) == 0) {
      override_region(name, value, place);
      return;
    }
    const auto* key = find_key(config_keys(), name);
    if (!key) throw ConfigError(place + ": unknown key" + suggestion(name, all_key_names()));
    set(*key, result_.config, override_value(*key, value, place), place, key->name);
  }

  ParsedConfig finish() {
    for (const auto& key : config_keys()) {
      if (key.required && !result_.places.contains(key.name)) {
        throw ConfigError(file_ + ": " + key.name + " is missing; it must be " + key.allowed +
                          (key.unit.empty() ? "" : " " + key.unit));
      }
    }
    return std::move(result_);
  }

 private:
  std::string place_of(const toml::source_region& region) const {
    return file_ + ":" + std::to_string(region.begin.line);
  }

  void apply_section(const std::string& section, const toml::key& name, const toml::node& node) {
    const std::vector<std::string> sections = section_names();
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
      throw ConfigError(place_of(name.source()) + ": unknown section '" + printable(section) + "'" +
                        suggestion(section, sections));
    }
    const auto* table = node.as_table();
    if (!table)
      throw ConfigError(place_of(name.source()) + ": " + section + ": must be a section, [" +
                        section + "]");
    for (const auto& [key_name, value] : *table) {
      apply_key(config_keys(), result_.config, section + "." + std::string(key_name.str()),
                key_name, value, "");
    }
  }

  void apply_regions(const toml::node& node) {
    const auto* list = node.as_array();
    if (!list)
      throw ConfigError(place_of(node.source()) +
                        ": regions: must be a list of tables, [[regions]]");
    for (const toml::node& item : *list) {
      const auto* table = item.as_table();
      if (!table)
        throw ConfigError(place_of(item.source()) +
                          ": regions: must be a list of tables, [[regions]]");
      apply_region(*table);
    }
  }

  void apply_region(const toml::table& table) {
    const std::string prefix = "regions[" + std::to_string(result_.config.regions.size()) + "].";
    RegionConfig region;
    region.listen = inter::Endpoint{"127.0.0.1", 0};
    for (const auto& [key_name, value] : table) {
      apply_key(region_keys(), region, "regions." + std::string(key_name.str()), key_name, value,
                prefix);
    }
    if (!result_.places.contains(prefix + "name")) {
      throw ConfigError(place_of(table.source()) +
                        ": regions.name is missing; it must be 1 to 63 of [a-z0-9-]");
    }
    result_.places["regions"] = place_of(table.source());
    result_.config.regions.push_back(std::move(region));
  }

  template <typename Owner>
  void apply_key(const std::vector<Key<Owner>>& keys, Owner& owner, const std::string& name,
                 const toml::key& source, const toml::node& node,
                 const std::string& region_prefix) {
    const std::string place = place_of(source.source());
    const auto* key = find_key(keys, name);
    if (!key) {
      throw ConfigError(place + ": unknown key '" + printable(name) + "'" +
                        suggestion(name, all_key_names()));
    }
    const std::string path =
        region_prefix.empty() ? name : region_prefix + name.substr(name.find('.') + 1);
    set(*key, owner, to_value(node), place, path);
  }

  template <typename Owner>
  void set(const Key<Owner>& key, Owner& owner, const std::optional<Value>& value,
           const std::string& place, const std::string& path) {
    const bool named = place.rfind("--set", 0) == 0;  // the place says the key already
    const std::string where = place + ": " + (named ? "" : key.name + ": ");
    if (!value) throw ConfigError(where + must_be(key));
    if (key.name != "checkpoint.after" && names_home(*value)) throw ConfigError(where + kNoHome);
    try {
      key.set(owner, *value);
    } catch (const std::invalid_argument& error) {
      throw ConfigError(where + error.what());
    }
    result_.places[path] = place;
  }

  // A text may stand without its quotes, which a shell would eat.
  template <typename Owner>
  std::optional<Value> override_value(const Key<Owner>& key, const std::string& text,
                                      const std::string& place) {
    const bool takes_text = key.type == "text" || key.type == "list of texts";
    const bool bare = takes_text && text.find_first_of("\"'[") != 0;
    try {
      if (too_many_dots(text)) return std::nullopt;
      const toml::table table = toml::parse("value = " + (bare ? quote(text) : text));
      if (table.size() != 1) return std::nullopt;
      return to_value(*table.get("value"));
    } catch (const toml::parse_error&) {
      throw ConfigError(place + ": " + must_be(key));
    }
  }

  // regions.NAME.key=value
  void override_region(const std::string& name, const std::string& value,
                       const std::string& place) {
    const std::size_t dot = name.rfind('.');
    const std::string region_name = dot < 8 ? "" : name.substr(8, dot - 8);
    auto& regions = result_.config.regions;
    const auto region = std::find_if(regions.begin(), regions.end(),
                                     [&](const RegionConfig& r) { return r.name == region_name; });
    if (region == regions.end()) {
      throw ConfigError(place + ": must be regions.NAME.key=value, with NAME a region of the file");
    }
    const std::string key_name = "regions." + name.substr(dot + 1);
    const auto* key = find_key(region_keys(), key_name);
    if (!key)
      throw ConfigError(place + ": unknown key" + suggestion(key_name, names_of(region_keys())));
    const std::string path =
        "regions[" + std::to_string(region - regions.begin()) + "]." + name.substr(dot + 1);
    set(*key, *region, override_value(*key, value, place), place, path);
  }

  std::string file_;
  ParsedConfig result_;
};

}  // namespace

std::string read_config(const std::filesystem::path& file) {
  try {
    return inter::read_regular_file(file, kFileBytesMax);
  } catch (const std::system_error& error) {
    if (inter::fails_for_now(error.code())) throw;
    throw ConfigError(std::string(error.what()) + "; give the path of a configuration file");
  } catch (const std::runtime_error& error) {
    throw ConfigError(std::string(error.what()) + "; give the path of a configuration file");
  }
}

ParsedConfig parse_config(const std::string& text, const std::string& file,
                          const std::vector<std::string>& overrides) {
  if (text.size() > kFileBytesMax || too_many_dots(text)) {
    throw ConfigError(file +
                      ": too large for a configuration file; name many data files by a glob");
  }
  Loader loader(file);
  loader.apply_file(text);
  for (const std::string& override_text : overrides) loader.apply_override(override_text);
  return loader.finish();
}

}  // namespace causeway::run
