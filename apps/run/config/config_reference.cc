// docs/configuration.md, made from the table of keys.
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/config/config_schema.h"

namespace causeway::run {
namespace {

constexpr const char* kIntroduction = R"(# Configuration

<!-- Made by `causeway config`; a test checks that it is up to date. Edit apps/run/config/config_schema*.cc instead. -->

One TOML file describes a run. `--set section.key=value` overrides a key on the command line (quotes around a text may be
left out), `--set regions.NAME.key=value` a key of one region. Unknown keys and impossible values are refused with file, line,
and what is allowed. Relative paths are relative to the current directory. `causeway config FILE` checks a file and prints it
with every default filled in.

The column *shared* says who must have the same value. *all*: all regions. Coordinators compare these keys when they connect and
refuse each other, showing the difference, if they are not the same. *region*: a region's coordinator and all its workers. A worker
shows its coordinator both kinds when it attaches, and is refused with every key that differs and both values. The other keys may
differ from process to process.

A key with a \* is only for the built-in trainer, `causeway worker`. If a program of your own trains
([worker-api.md](worker-api.md)), leave `data.files` out: these keys then have no effect.
)";

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

template <typename Owner>
std::string default_of(const Key<Owner>& key, const Owner& defaults) {
  if (key.required) return "*required*";
  if (!key.default_note.empty()) return key.default_note;
  return "`" + format_value(key.get(defaults)) + "`";
}

std::string shared_by(SharedBy by) {
  return by == SharedBy::run ? "all" : by == SharedBy::region ? "region" : "";
}

template <typename Owner>
std::string row(const Key<Owner>& key, const Owner& defaults) {
  const std::string allowed = key.allowed + (key.unit.empty() ? "" : " " + key.unit);
  return "| `" + key.name.substr(key.name.find('.') + 1) +
         (key.built_in_only ? "` \\* | " : "` | ") + key.type + " | " + cell(allowed) + " | " +
         cell(default_of(key, defaults)) + " | " + shared_by(key.shared_by) + " | " +
         cell(key.meaning) + " |\n";
}

std::string heading(const std::string& title) {
  return "\n## " + title +
         "\n\n| key | type | allowed | default | shared | meaning |\n|---|---|---|---|---|---|\n";
}

}  // namespace

std::string reference_markdown() {
  std::string out = kIntroduction, section;
  const Config defaults = default_config();
  for (const auto& key : config_keys()) {
    if (key.name.compare(0, key.name.find('.'), section) != 0) {
      section = key.name.substr(0, key.name.find('.'));
      out += heading("[" + section + "]");
    }
    out += row(key, defaults);
  }
  out += heading("[[regions]]");
  for (const auto& key : region_keys()) out += row(key, RegionConfig{});
  return out;
}

}  // namespace causeway::run
