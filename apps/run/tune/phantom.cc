#include "apps/run/tune/phantom.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "apps/run/config/parsed_config.h"
#include "apps/run/page/format.h"
#include "apps/run/tune/links.h"
#include "diloco/maths/layout.h"
#include "inter/base/text.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {
namespace {

constexpr std::size_t kRegionsMax = 64;  // of a scenario
// What is encoded in the model's stead. Codecs take segments of a million elements one by one.
constexpr std::int64_t kSampleRows = 2048, kSampleColumns = 2048;
constexpr std::size_t kWrittenBytes = 32U << 20;  // enough for a disk's rate
constexpr std::uint64_t kSampleSeed = 1;

std::string text_of(const std::vector<std::string>& regions) {
  std::string text = "[run]\nname = 'asked'\n[train]\nsteps = 100_000\nk = 100\n";
  for (const std::string& region : regions) text += "[[regions]]\nname = '" + region + "'\n";
  return text;
}

// The place of the i-th region: links have fewer places than there are regions.
std::string name_at(const std::vector<std::string>& places, std::size_t i) {
  const std::string& place = places[i % places.size()];
  const std::size_t turn = i / places.size() + 1;
  return turn == 1 ? place : fmt::format("{}-site{}", place, turn);
}

const wan_sim::LinkProfile& best_link(const wan_sim::Scenario& links) {
  const auto best = std::ranges::max_element(links.links, [](const auto& one, const auto& other) {
    return std::pair(one.second.rate_bytes_per_s, other.second.delay) <
           std::pair(other.second.rate_bytes_per_s, one.second.delay);
  });
  return best->second;
}

// Steps that moved every parameter a little, as independent normal numbers.
intra::OuterState sample_state(const diloco::Layout& layout) {
  intra::OuterState state(layout);
  std::mt19937_64 chance(kSampleSeed);
  std::normal_distribution<float> moved(0, 1e-3F);
  std::ranges::generate(state.params, [&] { return moved(chance); });
  state.digest = intra::whole_digest(state);
  return state;
}

double disk_bytes_per_s(const Phantom& phantom, const ProbeOptions& options, double save_s) {
  if (phantom.disk_bytes_per_s > 0) return phantom.disk_bytes_per_s;
  const double took_s =
      durable_write_s(options.directory, std::vector<std::byte>(kWrittenBytes)) - save_s;
  return double(kWrittenBytes) / std::max(1e-6, took_s);
}

// Every region's traffic shares this rate, in each direction.
void limit_regions(wan_sim::Scenario& links, double bytes_per_s) {
  for (const std::string& region : links.regions) {
    std::erase_if(links.hosts, [&](const wan_sim::Host& host) { return host.name == region; });
    links.hosts.push_back({.name = region, .region = region, .rate_bytes_per_s = bytes_per_s});
  }
}

// As long transfers find them. Returns what was left out, each once.
std::string leave_out_packets(wan_sim::Scenario& links) {
  const auto of_packets = [](const wan_sim::SettingUse& use) {
    return (use.engines & static_cast<unsigned>(wan_sim::Engine::virtual_fluid)) == 0;
  };
  std::set<std::string> names;
  for (const wan_sim::SettingUse& use : links.uses)
    if (of_packets(use)) names.insert(use.name);
  std::erase_if(links.uses, of_packets);
  for (auto& [pair, profile] : links.links) {
    const wan_sim::LinkProfile all = std::exchange(profile, {});
    profile.rate_bytes_per_s = all.rate_bytes_per_s;
    profile.delay = all.delay;
    profile.jitter = all.jitter;
  }
  std::string list;
  for (const std::string& name : names) inter::append_item(list, name);
  return list;
}

}  // namespace

Config config_of_phantom(const std::filesystem::path& file,
                         const std::vector<std::string>& overrides,
                         const std::vector<std::string>& regions) {
  if (file.empty())
    return load_config_text(text_of(regions), "--parameters", overrides, Trainer::program);
  Config config = load_config(file, overrides, Trainer::program);
  if (regions.empty()) return config;
  config.regions.clear();
  for (const std::string& region : regions) config.regions.emplace_back().name = region;
  config.sync.founder = regions.front();
  if (config.sync.rules.contributions_min > regions.size()) {
    throw ConfigError(fmt::format(
        "{}: sync.contributions_min = {} of {} regions: no round would be complete; give "
        "--set sync.contributions_min=N, or more --regions",
        file.string(), config.sync.rules.contributions_min, regions.size()));
  }
  return config;
}

wan_sim::Scenario with_regions(const wan_sim::Scenario& links, std::size_t count) {
  const std::vector<std::string>& places = links.regions;
  if (count == 0 || count == places.size()) return links;
  if (count > kRegionsMax)
    throw ConfigError(fmt::format("--regions {}: must be {} or fewer", count, kRegionsMax));
  wan_sim::Scenario out = links;
  out.regions.clear();
  for (std::size_t i = 0; i < count; ++i) out.regions.push_back(name_at(places, i));
  if (std::set(out.regions.begin(), out.regions.end()).size() < count) {
    throw ConfigError(fmt::format(
        "--regions {}: {} has a region with a name that is needed for another one; rename it",
        count, links.file.string()));
  }
  if (count < places.size()) return out;
  if (!links.timeline.empty() || !links.traces.empty() || !links.hosts.empty()) {
    throw ConfigError(fmt::format(
        "--regions {}: {} has {} regions with events, traces or hosts, which belong to these "
        "alone; take that many, or a file without",
        count, links.file.string(), places.size()));
  }
  const wan_sim::LinkProfile near = best_link(links);
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      const wan_sim::Pair between{places[a % places.size()], places[b % places.size()]};
      const bool same_place = between.first == between.second;
      if (a == b) continue;
      out.links[{out.regions[a], out.regions[b]}] = same_place ? near : links.links.at(between);
    }
  }
  return out;
}

wan_sim::Scenario links_of_phantom(const std::filesystem::path& file, const Phantom& phantom,
                                   const std::vector<std::string>& regions,
                                   std::vector<std::string>& warnings) {
  wan_sim::Scenario links = phantom.regions > 0
                                ? with_regions(wan_sim::load_scenario(file), phantom.regions)
                                : links_of_profile(file, regions);
  if (const std::string left_out = leave_out_packets(links); !left_out.empty()) {
    warnings.push_back(
        "only the rate, delay and jitter of the links count, as if enough connections filled them; "
        "left out: " +
        left_out);
  }
  if (phantom.region_bytes_per_s > 0) {
    limit_regions(links, phantom.region_bytes_per_s);
  } else if (links.hosts.empty()) {
    warnings.emplace_back(
        "every link has its full rate, however many links a region has; --region-mbit-s limits "
        "what a region sends in all");
  }
  return links;
}

Probe probe_phantom(const Config& config, const Phantom& phantom, const ProbeOptions& options,
                    std::vector<std::string>& warnings) {
  const diloco::Layout layout({{.name = "sample", .shape = {kSampleRows, kSampleColumns}}});
  const intra::OuterState state = sample_state(layout);
  const double times = phantom.parameters / double(layout.parameter_count());
  Probe out;
  out.parameters = static_cast<std::uint64_t>(phantom.parameters);
  out.step_s = options.step_s;
  out.save_s = durable_write_s(options.directory, std::vector<std::byte>(kSmallWriteBytes));
  const double disk = disk_bytes_per_s(phantom, options, out.save_s);
  const double pass_s = sizeof(float) * phantom.parameters / phantom.codec_bytes_per_s;
  for (const std::string& spec : options.codecs) {
    CodecProbe codec = bench_codec(config, layout, state, spec, options.directory);
    const bool told = phantom.codec_bytes_per_s > 0;
    codec.payload_bytes = static_cast<std::uint64_t>(double(codec.payload_bytes) * times);
    codec.encode_s = told ? pass_s : codec.encode_s * times;
    codec.apply_s = told ? pass_s * double(config.regions.size()) : codec.apply_s * times;
    codec.store_s = out.save_s + double(codec.payload_bytes) / disk;
    out.codecs.push_back(std::move(codec));
  }
  if (phantom.codec_bytes_per_s <= 0) {
    warnings.push_back("the times of encoding and applying are those of this machine for " +
                       format_count(layout.parameter_count()) + " parameters, " +
                       format_fixed(times, 0) +
                       " times as long; --codec-gb-s says how fast the regions' machines are");
  }
  return out;
}

}  // namespace causeway::run
