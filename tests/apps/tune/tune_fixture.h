// Tunings of a small configuration of two regions, in a directory that is removed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/run/config/parsed_config.h"
#include "apps/run/region/region_files.h"
#include "apps/run/tune/plan.h"
#include "apps/run/tune/tune.h"
#include "tests/apps/temporary.h"

namespace causeway::run {

inline const char* const kConfig = R"(
[run]
name = "small"
[model]
layers = 1
width = 16
heads = 2
context = 8
vocabulary = 16
[data]
files = ["none.txt"]
[train]
steps = 1200
k = 10
timed_step_ms = 1
[[regions]]
name = "us"
[[regions]]
name = "eu"
)";

inline Config config(const std::vector<std::string>& overrides = {}) {
  return load_config_text(kConfig, "test.toml", overrides);
}

inline const char* const kLinks =
    "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 100\nrate_mbit_s = 10\n";

class TuneTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) {
    const auto file = directory_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    write_text_file(file, text);
    return file;
  }
  TuneOptions options() {
    TuneOptions options;
    options.config = write("config.toml", kConfig);
    options.links = write("links.toml", kLinks);
    options.cache = directory_.path() / "cache";
    options.step_s = 0.05;
    options.rounds = 4;
    options.grid.ks = {10, 20, 40};
    return options;
  }
  Tuning tuned(const TuneOptions& options) {
    return tune(options, [](const std::string&) {});
  }
  // A run's directory: rounds of both regions over kLinks, and settings of its own.
  std::filesystem::path recorded(const std::string& rounds, const std::string& settings = "") {
    const std::string wan = "[wan]\nprofile = '" + write("links.toml", kLinks).string() + "'\n";
    write("run/config.toml", kConfig + settings + wan);
    write("run/regions/us/events.jsonl", rounds);
    return write("run/regions/eu/events.jsonl", rounds).parent_path().parent_path().parent_path();
  }
  Tuning planned(const std::filesystem::path& run, const std::filesystem::path& links = {},
                 std::uint32_t k = 20) {
    TuneOptions asked;
    asked.cache = directory_.path() / "cache";
    asked.grid.ks = {k};
    asked.links = links;
    return plan(asked, run, [](const std::string&) {});
  }
  TemporaryDirectory directory_;
};

}  // namespace causeway::run
