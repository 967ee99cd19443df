#include "apps/run/config/config.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <system_error>

#include "apps/run/config/config_schema.h"
#include "apps/run/config/config_source.h"
#include "apps/run/config/spool_need.h"
#include "apps/run/page/format.h"
#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"

namespace causeway::run {
namespace {

// The shape of the model that the run begins with takes the place of keys that were left out, or
// set to 0; those that were set must agree with it, but the context may be shorter.
void take_shape_of_origin(ParsedConfig& parsed) {
  Config& config = parsed.config;
  if (config.origin.model.empty()) return;
  Config published = config;
  try {
    published.model = intra::read_model_options(config.origin.model);
  } catch (const std::system_error& error) {
    throw ConfigError(parsed.places.at("model.from") + ": model.from: " + error.what());
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

// Settings that are fine alone and impossible together. Each message names one of them and where it
// was set.
class CombinationChecks {
 public:
  CombinationChecks(const ParsedConfig& parsed, std::string file)
      : config_(parsed.config), places_(parsed.places), file_(std::move(file)) {}

  void run() const {
    regions();
    model();
    training();
    codec("codec.matrix", {config_.codec.matrix});
    codec("codec.vector", {config_.codec.vector});
    tensor_codecs();
    codec("codec.step_up", config_.codec.step_up);
    require(config_.codec.step_up.empty() || config_.codec.error_max > 0, "codec.step_up",
            "has no use without codec.error_max");
    synchronisation();
    overlap();
    spool();
  }

 private:
  // `key` as in Places; a --set place names its key already.
  void require(bool holds, const std::string& key, const std::string& problem) const {
    if (holds) return;
    const auto place = places_.find(key);
    if (place == places_.end()) throw ConfigError(file_ + ": " + key + ": " + problem);
    const bool named = place->second.rfind("--set", 0) == 0;
    throw ConfigError(place->second + ": " + (named ? "" : key + ": ") + problem);
  }

  void regions() const {
    require(!config_.regions.empty(), "regions", "must have at least one [[regions]]");
    std::set<std::string> names;
    for (std::size_t i = 0; i < config_.regions.size(); ++i) {
      const std::string& name = config_.regions[i].name;
      require(names.insert(name).second, "regions[" + std::to_string(i) + "].name",
              "must be unique; another region is also called '" + name + "'");
    }
    const RegionConfig* dials_only = nullptr;
    for (std::size_t i = 0; i < config_.regions.size(); ++i) {
      const RegionConfig& region = config_.regions[i];
      if (!region.advertise.host.empty()) continue;
      require(dials_only == nullptr, "regions[" + std::to_string(i) + "].advertise",
              "must be an address that others can dial: region " +
                  (dials_only == nullptr ? "" : dials_only->name) +
                  " has none either, and one of the two must be reachable");
      dials_only = &region;
    }
  }

  void model() const {
    const intra::ModelOptions& model = config_.model;
    const bool gpt2 = model.family == intra::ModelOptions::Family::gpt2;
    require(model.width % model.heads == 0, "model.width",
            "must be a multiple of model.heads, " + std::to_string(model.heads));
    require(model.kv_heads <= model.heads && model.heads % model.kv_heads == 0, "model.kv_heads",
            "must divide model.heads, " + std::to_string(model.heads));
    require(!gpt2 || model.kv_heads == model.heads, "model.kv_heads",
            "must equal model.heads with model.family gpt2; grouped-query attention needs llama");
    require(gpt2 || model.width / model.heads % 2 == 0, "model.width",
            "must give an even number per head with model.family llama, for its rotary positions");
    require(
        config_.data.format != intra::DataOptions::Format::text || config_.origin.tokenizer.empty(),
        "data.format",
        "must not be text, whose tokens are bytes, with the tokenizer of " +
            config_.origin.tokenizer.string() + ": `causeway prepare` makes its tokens");
    require(config_.data.format != intra::DataOptions::Format::uint16 || model.vocabulary <= 65'536,
            "model.vocabulary", "must be at most 65536 with data.format uint16");
  }

  void training() const {
    const intra::TrainOptions& train = config_.train;
    require(train.steps % train.k == 0, "train.steps",
            "must be a multiple of train.k, " + std::to_string(train.k));
    for (const RegionConfig& region : config_.regions) {
      const std::int64_t parts = std::int64_t{region.workers} * train.micro_batches;
      require(train.batch % parts == 0, "train.batch",
              "must be a multiple of workers x micro_batches, " + std::to_string(parts) +
                  " in region " + region.name);
    }
  }

  void codec(const std::string& key, const std::vector<std::string>& specs) const {
    for (const std::string& spec : specs) {
      try {
        const bool sparse = compression::make_codec(spec)->is_sparse();
        require(!sparse || config_.codec.feedback || config_.codec.force, "codec.feedback",
                "must be true with a sparse codec (" + key + " = " + spec +
                    "), or what it drops is lost; codec.force runs it all the same");
      } catch (const std::system_error& error) {
        require(false, key, error.what());
      }
    }
  }

  void tensor_codecs() const {
    std::vector<std::string> specs;
    for (const intra::TensorCodec& tensor : config_.codec.tensors) specs.push_back(tensor.spec);
    codec("codec.tensors", specs);
    try {
      intra::CodecPolicy(config_.codec, diloco::Layout(intra::parameter_tensors(config_.model)));
    } catch (const std::system_error& error) {
      require(false, "codec.tensors", error.what());
    }
  }

  void overlap() const {
    using Variant = diloco::OverlapOptions::Variant;
    const diloco::OverlapOptions& overlap = config_.overlap;
    const std::uint32_t fragments = overlap.fragments, k = config_.train.k;
    require(fragments == 1 || overlap.variant == Variant::streaming, "sync.fragments",
            "must be 1 unless sync.variant is streaming");
    require(k % fragments == 0, "sync.fragments", "must divide train.k, " + std::to_string(k));
    const diloco::KPolicyOptions limits = k_policy(config_);
    const std::string multiple = "must be a multiple of sync.fragments and ";
    require(limits.k_min % fragments == 0 && limits.k_min <= k, "sync.k_min",
            multiple + "at most train.k, " + std::to_string(k));
    require(limits.k_max % fragments == 0 && limits.k_max >= k, "sync.k_max",
            multiple + "at least train.k, " + std::to_string(k));
    require(config_.sync.warmup_k % fragments == 0 && config_.sync.warmup_k <= k, "sync.warmup_k",
            "must be a multiple of sync.fragments and at most train.k, " + std::to_string(k));
    const std::string most = "must be at most train.k / sync.fragments, " +
                             std::to_string(k / fragments) + ": then the next exchange begins";
    require(config_.sync.overlap_steps <= k / fragments, "sync.overlap_steps", most);
    for (std::size_t i = 0; i < config_.regions.size(); ++i) {
      require(config_.regions[i].overlap_steps <= std::int64_t{k / fragments},
              "regions[" + std::to_string(i) + "].overlap_steps", most);
    }
    try {
      diloco::Fragments(diloco::Layout(intra::parameter_tensors(config_.model)), fragments,
                        overlap.order);
    } catch (const std::invalid_argument& error) {
      require(false, "sync.fragments", error.what());
    }
  }

  void synchronisation() const {
    std::string known;
    bool found = false;
    for (const RegionConfig& region : config_.regions) {
      known += (known.empty() ? "" : ", ") + region.name;
      found = found || region.name == config_.sync.founder;
    }
    require(found, "sync.founder", "must be one of the regions: " + known);
    require(config_.sync.rules.contributions_min <= config_.regions.size(),
            "sync.contributions_min",
            "must be at most the number of regions, " + std::to_string(config_.regions.size()));
    require(config_.sync.rules.grace_min <= config_.sync.rules.grace_max, "sync.grace_min_s",
            "must be at most sync.grace_max_s");
    for (const RegionConfig& region : config_.regions) {
      require(region.name != config_.witness.name, "witness.name",
              "must not be the name of a region");
    }
  }

  // A spool that is full keeps the region from contributing, and may never have room again.
  void spool() const {
    const SpoolNeed need = spool_need(config_);
    constexpr double kGibi = 1ULL << 30;
    const double gib = std::ceil(1000 * static_cast<double>(need.bytes) / kGibi) / 1000;
    const bool by_checkpoints = config_.train.checkpoint_rounds >
                                std::max<std::uint64_t>(2, config_.sync.rules.staleness_max + 1);
    require(config_.sync.spool_bytes_max >= need.bytes, "sync.spool_gib",
            "must be at least " + format_fixed(gib, 3) + ": payloads of " +
                std::to_string(need.rounds) + " rounds of " +
                std::to_string(config_.regions.size()) + " regions are kept, of up to " +
                format_bytes(static_cast<double>(need.payload_bytes)) +
                " each, and two snapshots of " +
                format_bytes(static_cast<double>(need.snapshot_bytes)) +
                (by_checkpoints ? "; with fewer train.checkpoint_rounds it is less" : ""));
  }

  const Config& config_;
  const Places& places_;
  std::string file_;
};

std::vector<std::string> region_names_sorted(const Config& config) {
  std::vector<std::string> names;
  for (const RegionConfig& region : config.regions) names.push_back(region.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Config load_config_text(const std::string& text, const std::string& file,
                        const std::vector<std::string>& overrides) {
  ParsedConfig parsed = parse_config(text, file, overrides);
  resolve(parsed);
  CombinationChecks(parsed, file).run();
  return std::move(parsed.config);
}

Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return load_config_text(read_config(file), file.string(), overrides);
}

std::string to_toml(const Config& config) {
  std::string out, section;
  for (const auto& key : config_keys()) {
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
      out += key.name.substr(key.name.find('.') + 1) + " = " + format_value(key.get(region)) + "\n";
    }
  }
  return out;
}

std::string shared_settings(const Config& config) {
  std::set<std::string> lines;
  for (const auto& key : config_keys()) {
    if (key.shared) lines.insert(key.name + " = " + format_value(key.get(config)) + "\n");
  }
  lines.insert("regions.name = " + format_value(region_names_sorted(config)) + "\n");
  std::string out;
  for (const std::string& line : lines) out += line;
  return out;
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
  if (config.overlap.variant != Variant::streaming) return k_policy(config).k_max;
  for (const RegionConfig& one : config.regions) {
    if (one.name == region && one.overlap_steps >= 0)
      return static_cast<std::uint32_t>(one.overlap_steps);
  }
  return config.sync.overlap_steps;
}

}  // namespace

diloco::ProtocolOptions protocol_options(const Config& config, const std::string& region) {
  diloco::ProtocolOptions options{config.sync.rules};
  options.pace = pace(config);
  options.k_policy = k_policy(config);
  options.overlap_steps = overlap_steps(config, region);
  options.outer_momentum = config.outer.momentum;
  options.spool_bytes = config.sync.spool_bytes_max;
  return options;
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
  for (const std::string& one : region_names_sorted(config))
    known += (known.empty() ? "" : ", ") + one;
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
  options.rank = rank;
  options.world = named.workers;
  static_cast<intra::Recipe&>(options) = config;
  options.train.device = named.device;
  if (config.sync.k_auto) options.train.held_out_sequences = config.sync.held_out_sequences;
  options.directory = region_directory;
  return options;
}

}  // namespace causeway::run
