#include "apps/run/config/parsed_config.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <vector>

#include "apps/run/config/spool_need.h"
#include "apps/run/page/format.h"
#include "compression/base/codec.h"
#include "inter/base/text.h"
#include "intra/base/error.h"

namespace causeway::run {
namespace {

// Of one parameter: itself, gradient, two moments, anchor, outer momentum and residual, in fp32.
constexpr double kStateBytes = 7 * sizeof(float);

class CombinationChecks {
 public:
  CombinationChecks(const ParsedConfig& parsed, std::string file)
      : config_(parsed.config), places_(parsed.places), file_(std::move(file)) {}

  void run() const {
    regions();
    if (config_.built_in_trainer()) {
      model();
      size();
      batches();
      buckets();
    } else {
      program();
    }
    steps();
    codec("codec.matrix", {config_.codec.matrix});
    codec("codec.vector", {config_.codec.vector});
    codec("codec.tensors", specs_of_tensors());
    codec("codec.step_up", config_.codec.step_up);
    require(config_.codec.step_up.empty() || config_.codec.error_max > 0, "codec.step_up",
            "has no effect without codec.error_max; set that too");
    require(config_.codec.error_max == 0 || !config_.codec.step_up.empty(), "codec.error_max",
            "needs codec.step_up, the codecs that are tried in order, such as [\"dense:int8\", "
            "\"dense:fp32\"]");
    synchronisation();
    overlap();
    budget();
    proofs();
    if (config_.built_in_trainer()) layout();
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
    ways_between();
  }

  // Two that nobody can dial talk by way of one that both dial. A witness carries no payloads.
  void ways_between() const {
    const auto has_address = [](const RegionConfig& region) {
      return !region.advertise.host.empty();
    };
    if (config_.regions.size() < 2 || std::ranges::any_of(config_.regions, has_address)) return;
    require(false, "regions[1].advertise",
            "must be an address that others can dial: no region has one, and at least one must "
            "be reachable for the others");
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
        "must not be text, which is read as bytes, with the tokenizer of " +
            config_.origin.tokenizer.string() + "; make its tokens with `causeway prepare`");
    require(config_.data.format != intra::DataOptions::Format::uint16 || model.vocabulary <= 65'536,
            "model.vocabulary", "must be at most 65536 with data.format uint16");
  }

  // Before anything is laid out, which takes time and memory with the size.
  void size() const {
    double parameters = 0;
    for (const diloco::TensorSpec& tensor : intra::parameter_tensors(config_.model))
      parameters += static_cast<double>(tensor.count());
    require(parameters <= kParametersMax, "model.width",
            "makes a model of " + format_fixed(parameters / 1e9, 0) +
                " billion parameters, whose training state alone needs " +
                format_bytes(parameters * kStateBytes) + " in every worker; at most " +
                format_fixed(kParametersMax / 1e9, 0) +
                " billion are possible: set a smaller model.width, model.hidden, "
                "model.layers or model.vocabulary");
  }

  // One process speaks for a region then.
  void program() const {
    for (std::size_t i = 0; i < config_.regions.size(); ++i) {
      require(config_.regions[i].workers == 1, "regions[" + std::to_string(i) + "].workers",
              "must be 1 where a program of your own trains: one process of it speaks for its "
              "region, and it may start more by itself");
    }
  }

  void steps() const {
    require(config_.train.steps % config_.train.k == 0, "train.steps",
            "must be a multiple of train.k, " + std::to_string(config_.train.k));
  }

  void batches() const {
    const intra::TrainOptions& train = config_.train;
    for (const RegionConfig& region : config_.regions) {
      const std::int64_t parts = std::int64_t{region.workers} * train.micro_batches;
      require(train.batch % parts == 0, "train.batch",
              "must be a multiple of workers x micro_batches, " + std::to_string(parts) +
                  " in region " + region.name);
    }
  }

  void buckets() const {
    const bool sums = std::ranges::any_of(
        config_.regions, [](const RegionConfig& region) { return region.workers > 1; });
    require(sums || config_.train.bucket_precision == intra::ModelOptions::Precision::fp32,
            "train.bucket_precision",
            "has no effect where every region has one worker, which sums its gradients with "
            "nobody; set regions.workers, or leave it at fp32");
  }

  void codec(const std::string& key, const std::vector<std::string>& specs) const {
    for (const std::string& spec : specs) {
      try {
        const bool sparse = is_sparse(spec);
        require(!sparse || config_.codec.feedback || config_.codec.force, "codec.feedback",
                "must be true with a sparse codec (" + key + " = " + spec +
                    "); without feedback, what it drops is lost. codec.force = true allows it");
      } catch (const std::system_error& error) {
        require(false, key, intra::message_of(error));
      }
    }
  }

  std::vector<std::string> specs_of_tensors() const {
    std::vector<std::string> specs;
    for (const intra::TensorCodec& tensor : config_.codec.tensors) specs.push_back(tensor.spec);
    return specs;
  }

  // What depends on the model's tensors.
  void layout() const {
    const diloco::Layout layout(intra::parameter_tensors(config_.model));
    try {
      intra::CodecPolicy(config_.codec, layout);
    } catch (const std::system_error& error) {
      require(false, "codec.tensors", intra::message_of(error));
    }
    try {
      diloco::Fragments(layout, config_.overlap.fragments, config_.overlap.order);
    } catch (const std::invalid_argument& error) {
      require(false, "sync.fragments", error.what());
    }
    spool();
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
  }

  void budget() const {
    const diloco::EgressBudget& budget = config_.budget;
    if (!budget.limits()) return;
    require(!config_.links.prices.empty(), "links.prices",
            "must be a file with the prices of traffic, because there is a [budget]");
    require(budget.k_max % config_.overlap.fragments == 0 &&
                (budget.k_max == 0 || budget.k_max >= k_policy(config_).k_max),
            "budget.k_max",
            "must be 0, or a multiple of sync.fragments and at least the largest K without it, " +
                std::to_string(k_policy(config_).k_max));
  }

  // A check trains on one CPU from where the round began, as the region did.
  void proofs() const {
    if (config_.train.prove_steps == 0) return;
    require(config_.built_in_trainer(), "ledger.prove_steps",
            "must be 0 where a program of your own trains: only the built-in trainer proves its "
            "steps");
    const auto need = [this](bool holds, const std::string& what) {
      require(holds, "ledger.prove_steps", "needs " + what + "; or set it to 0");
    };
    need(config_.keeps_all, "ledger.keep = \"all\", because a check reads what that keeps");
    need(config_.overlap.variant == diloco::OverlapOptions::Variant::synchronous,
         "sync.variant = \"synchronous\", so that every round begins with the agreed parameters");
    need(config_.train.timed_step_ms == 0, "steps that compute something, not train.timed_step_ms");
    for (const RegionConfig& region : config_.regions) {
      need(region.workers == 1 && region.device == intra::Device::cpu,
           "regions of one worker on a CPU, so that one process computes the same bits again: "
           "region " +
               region.name + " is not");
    }
  }

  void synchronisation() const {
    std::string known;
    bool found = false;
    for (const RegionConfig& region : config_.regions) {
      inter::append_item(known, region.name);
      found = found || region.name == config_.sync.founder;
    }
    require(found, "sync.founder", "must be one of the regions: " + known);
    require(config_.sync.rules.contributions_min <= config_.regions.size(),
            "sync.contributions_min",
            "must be at most the number of regions, " + std::to_string(config_.regions.size()));
    exchange();
    require(config_.sync.rules.grace_min <= config_.sync.rules.grace_max, "sync.grace_min_s",
            "must be at most sync.grace_max_s");
    for (const RegionConfig& region : config_.regions) {
      require(region.name != config_.witness.name, "witness.name",
              "must not be the name of a region");
    }
  }

  void exchange() const {
    if (config_.sync.rules.exchange != diloco::ExchangeKind::sharded) return;
    require(config_.overlap.variant != diloco::OverlapOptions::Variant::eager, "sync.exchange",
            "must not be sharded with sync.variant = \"eager\", which needs the payload of every "
            "region; set it to full");
    require(!has_sparse_codec(config_) || config_.outer.mean == diloco::OuterOptions::Mean::all,
            "sync.exchange",
            "must not be sharded with a sparse codec and outer.mean = \"senders\": a sum does not "
            "say who sent which coordinate; set it to full, or outer.mean = \"all\"");
  }

  // That of a program is looked at when it attaches (spool_problem_of_program).
  void spool() const {
    const std::string problem =
        spool_problem(config_, spool_need(config_), "train.checkpoint_rounds");
    require(problem.empty(), "sync.spool_gib", problem);
  }

  const Config& config_;
  const Places& places_;
  std::string file_;
};

}  // namespace

void check_combinations(const ParsedConfig& parsed, const std::string& file) {
  CombinationChecks(parsed, file).run();
}

}  // namespace causeway::run
