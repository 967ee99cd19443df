#include "apps/run/config/config.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>

#include "apps/run/config/config_schema.h"
#include "apps/run/config/parsed_config.h"
#include "apps/run/config/suitable_outer.h"
#include "compression/codecs/make_codec.h"
#include "inter/base/text.h"
#include "intra/base/error.h"

namespace causeway::run {
namespace {

// The shape of the model that the run begins with takes the place of keys that were left out, or
// set to 0; those that were set must agree with it, but the context may be shorter.
void take_shape_of_origin(ParsedConfig& parsed) {
  Config& config = parsed.config;
  if (config.origin.model.empty() || !config.built_in_trainer()) return;
  Config published = config;
  try {
    published.model = intra::read_model_options(config.origin.model);
  } catch (const std::system_error& error) {
    throw ConfigError(parsed.places.at("model.from") + ": model.from: " + intra::message_of(error));
  }
  published.model.dropout = config.model.dropout;
  published.model.precision = config.model.precision;
  for (const Key<Config>& key : config_keys()) {
    const bool of_shape = key.name.starts_with("model.") && key.name != "model.from";
    const auto place = parsed.places.find(key.name);
    if (!of_shape || place == parsed.places.end()) continue;
    const Value set = key.get(config), there = key.get(published);
    if (set == Value(std::int64_t{0}) || set == there) continue;
    if (key.name == "model.context" && set < there) {
      published.model.context = config.model.context;
      continue;
    }
    const bool named = place->second.starts_with("--set");
    throw ConfigError(place->second + ": " + (named ? "" : key.name + ": ") + "is " +
                      format_value(set) + ", but " + config.origin.model.string() + " has " +
                      format_value(there) + "; leave it out");
  }
  config.model = published.model;
  if (config.origin.tokenizer.empty() && exists(config.origin.model / "tokenizer.json"))
    config.origin.tokenizer = config.origin.model;
}

// What a key that was left out, or set to 0, takes from other keys.
void resolve(ParsedConfig& parsed) {
  take_shape_of_origin(parsed);
  Config& config = parsed.config;
  intra::ModelOptions& model = config.model;
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.hidden == 0) {
    const std::int64_t two_thirds = (8 * model.width + 2) / 3;
    model.hidden = model.family == intra::ModelOptions::Family::gpt2 ? 4 * model.width
                                                                     : (two_thirds + 63) / 64 * 64;
  }
  config.data.vocabulary = model.vocabulary;
  if (config.sync.founder.empty() && !config.regions.empty())
    config.sync.founder = config.regions.front().name;
  if (!parsed.places.contains("witness.advertise")) {
    config.witness.advertise = config.witness.listen;
  }
  for (std::size_t i = 0; i < config.regions.size(); ++i) {
    RegionConfig& region = config.regions[i];
    if (!parsed.places.contains("regions[" + std::to_string(i) + "].advertise"))
      region.advertise = region.listen;
  }
}

// Whether the key says anything in this configuration.
template <typename Owner>
bool applies(const Key<Owner>& key, const Config& config) {
  return !key.built_in_only || config.built_in_trainer();
}

std::vector<std::string> region_names_sorted(const Config& config) {
  std::vector<std::string> names;
  for (const RegionConfig& region : config.regions) names.push_back(region.name);
  std::sort(names.begin(), names.end());
  return names;
}

// After all else is filled in and found right.
void choose_outer(ParsedConfig& parsed) {
  Config& config = parsed.config;
  const bool named = parsed.places.contains("outer.optimizer");
  for (const char* key : {"outer.lr", "outer.momentum", "outer.mean"}) {
    const auto place = parsed.places.find(key);
    if (config.outer_kind || place == parsed.places.end()) continue;
    if (named)
      throw ConfigError(place->second + ": " + key +
                        " must be left out where outer.optimizer is auto, which chooses it; or set "
                        "outer.optimizer");
    if (std::string_view(key) == "outer.mean")
      throw ConfigError(
          place->second + ": " + key +
          " needs outer.optimizer beside it: sgd with a sparse codec. Leave both out, "
          "and both are chosen");
    config.outer_kind = config.outer.kind;
  }
  if (config.outer_kind) {
    config.outer.kind = *config.outer_kind;
  } else {
    take_suitable_outer(config);
  }
}

}  // namespace

Config load_config_text(const std::string& text, const std::string& file,
                        const std::vector<std::string>& overrides, Trainer trainer) {
  ParsedConfig parsed = parse_config(text, file, overrides);
  if (trainer == Trainer::program) parsed.config.data.files.clear();
  if (trainer == Trainer::built_in && !parsed.config.built_in_trainer()) {
    throw ConfigError(file +
                      ": data.files is missing; it must be one or more paths or globs. A "
                      "configuration without it is for a program of your own, which "
                      "`causeway simulate --worker` starts (docs/worker-api.md)");
  }
  resolve(parsed);
  check_combinations(parsed, file);
  choose_outer(parsed);
  return std::move(parsed.config);
}

Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   Trainer trainer) {
  return load_config_text(read_config(file), file.string(), overrides, trainer);
}

std::string to_toml(const Config& config) {
  std::string out, section;
  for (const auto& key : config_keys()) {
    if (!applies(key, config)) continue;
    const std::size_t dot = key.name.find('.');
    if (key.name.compare(0, dot, section) != 0) {
      section = key.name.substr(0, dot);
      out += (out.empty() ? "[" : "\n[") + section + "]\n";
    }
    out += key.name.substr(dot + 1) + " = " + format_value(key.get(config)) + "\n";
  }
  for (const RegionConfig& region : config.regions) {
    out += "\n[[regions]]\n";
    for (const auto& key : region_keys()) {
      if (!applies(key, config)) continue;
      out += key.name.substr(key.name.find('.') + 1) + " = " + format_value(key.get(region)) + "\n";
    }
  }
  return out;
}

namespace {

template <typename Owner>
void add_lines(std::set<std::string>& lines, const Config& config,
               const std::vector<Key<Owner>>& keys, const Owner& owner, SharedBy by) {
  for (const Key<Owner>& key : keys) {
    if (key.shared_by == by && applies(key, config))
      lines.insert(key.name + " = " + format_value(key.get(owner)) + "\n");
  }
}

std::string joined(const std::set<std::string>& lines) {
  return std::accumulate(lines.begin(), lines.end(), std::string());
}

}  // namespace

std::string shared_settings(const Config& config) {
  std::set<std::string> lines;
  add_lines(lines, config, config_keys(), config, SharedBy::run);
  lines.insert("regions.name = " + format_value(region_names_sorted(config)) + "\n");
  return joined(lines);
}

std::string region_settings(const Config& config, const std::string& region) {
  std::set<std::string> lines;
  for (const SharedBy by : {SharedBy::run, SharedBy::region}) {
    add_lines(lines, config, config_keys(), config, by);
  }
  add_lines(lines, config, region_keys(), region_in(config, region), SharedBy::region);
  return joined(lines);
}

diloco::Pace pace(const Config& config) {
  return {.steps = config.train.steps,
          .k = config.train.k,
          .fragments = config.overlap.fragments,
          .warmup_k = config.sync.warmup_k,
          .warmup_steps = config.inner.warmup_steps};
}

// Limits that were left open are multiples of the fragments, as every K is.
diloco::KPolicyOptions k_policy(const Config& config) {
  const SyncConfig& sync = config.sync;
  const std::uint32_t k = config.train.k, fragments = config.overlap.fragments;
  const std::uint32_t eighth = std::max(1U, k / 8 / fragments) * fragments;
  diloco::KPolicyOptions options;
  options.k_min = !sync.k_auto ? k : sync.k_min > 0 ? sync.k_min : eighth;
  options.k_max = !sync.k_auto ? k : sync.k_max > 0 ? sync.k_max : 8 * k;
  options.refit_rounds = sync.k_refit_rounds;
  options.price.lambda = sync.k_price;
  options.budget = config.budget;
  options.overlap = {.variant = config.overlap.variant,
                     .fragments = fragments,
                     .overlap_steps = sync.overlap_steps};
  return options;
}

namespace {

// Inner steps that a region goes on with after it contributed: its own, or the run's.
std::uint32_t overlap_steps(const Config& config, const std::string& region) {
  using Variant = diloco::OverlapOptions::Variant;
  if (config.overlap.variant == Variant::synchronous) return 0;
  if (config.overlap.variant != Variant::streaming) {
    const diloco::EgressBudget& budget = config.budget;
    if (!budget.changes_k()) return k_policy(config).k_max;
    return std::max<std::uint32_t>(k_policy(config).k_max,
                                   budget.k_max > 0 ? budget.k_max : diloco::kLargestK);
  }
  for (const RegionConfig& one : config.regions) {
    if (one.name == region && one.overlap_steps >= 0)
      return static_cast<std::uint32_t>(one.overlap_steps);
  }
  return config.sync.overlap_steps;
}

}  // namespace

bool is_sparse(const std::string& codec) {
  return compression::make_codec(codec)->is_sparse();
}

bool has_sparse_codec(const Config& config) {
  return has_sparse_codec(config, config.codec.matrix);
}

bool has_sparse_codec(const Config& config, const std::string& matrix) {
  std::vector<std::string> specs{matrix, config.codec.vector};
  for (const intra::TensorCodec& tensor : config.codec.tensors) specs.push_back(tensor.spec);
  return std::ranges::any_of(specs, is_sparse);
}

// The eager variant needs the payload of every region, and sums of sparse payloads are dense.
diloco::ExchangeKind exchange_with(diloco::ExchangeKind set,
                                   diloco::OverlapOptions::Variant variant, bool sparse) {
  const bool unwise = set == diloco::ExchangeKind::automatic && sparse;
  const bool impossible = variant == diloco::OverlapOptions::Variant::eager;
  return unwise || impossible ? diloco::ExchangeKind::full : set;
}

diloco::ProtocolOptions protocol_options(const Config& config, const std::string& region) {
  diloco::ProtocolOptions options{config.sync.rules};
  options.pace = pace(config);
  options.k_policy = k_policy(config);
  options.overlap_steps = overlap_steps(config, region);
  options.outer_momentum = config.outer.momentum;
  options.spool_bytes = config.sync.spool_bytes_max;
  options.own_data = config.data.per_region;
  options.exchange =
      exchange_with(options.exchange, config.overlap.variant, has_sparse_codec(config));
  return options;
}

std::uint64_t follower_bytes_per_s(const Config& config) {
  return static_cast<std::uint64_t>(config.links.followers_mbit_s * 125'000);
}

std::vector<std::string> names_of(const Config& config) {
  std::vector<std::string> names;
  for (const RegionConfig& region : config.regions) names.push_back(region.name);
  return names;
}

const RegionConfig& region_in(const Config& config, const std::string& name) {
  for (const RegionConfig& region : config.regions)
    if (region.name == name) return region;
  std::string known;
  for (const std::string& one : region_names_sorted(config)) inter::append_item(known, one);
  throw ConfigError("--region " + name + ": must be one of the regions: " + known);
}

intra::WorkerOptions worker_options(const Config& config, const std::string& region,
                                    std::uint32_t rank,
                                    const std::filesystem::path& region_directory) {
  const std::vector<std::string> names = region_names_sorted(config);
  const RegionConfig& named = region_in(config, region);
  if (rank >= named.workers) {
    throw ConfigError("--rank " + std::to_string(rank) + ": must be below the workers of region " +
                      region + ", " + std::to_string(named.workers));
  }
  intra::WorkerOptions options;
  options.region = region;
  options.region_index =
      static_cast<std::size_t>(std::find(names.begin(), names.end(), region) - names.begin());
  options.region_count = names.size();
  options.rank = options.local_rank = rank;
  options.world = named.workers;
  static_cast<intra::Recipe&>(options) = config;
  if (!named.data_files.empty()) options.data.files = named.data_files;
  options.train.device = named.device;
  if (config.sync.k_auto) options.train.held_out_sequences = config.sync.held_out_sequences;
  options.directory = region_directory;
  options.settings = region_settings(config, region);
  return options;
}

}  // namespace causeway::run
