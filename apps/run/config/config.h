// One TOML file describes a run. Every key has its type, unit, default and range in one table
// (config_schema.h), from which parsing, --help, and docs/configuration.md are made. Unknown or
// impossible settings are refused with file, line and the nearest valid key.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "diloco/maths/outer.h"
#include "diloco/pacing/k_policy.h"
#include "diloco/pacing/pace.h"
#include "diloco/region/protocol_options.h"
#include "inter/mesh/mesh.h"
#include "intra/step/worker_options.h"

namespace causeway::run {

inline constexpr double kGibi = 1ULL << 30;     // bytes
inline constexpr double kParametersMax = 1e12;  // of any model

struct RegionConfig {
  std::string name;
  inter::Endpoint listen;     // bind address
  inter::Endpoint advertise;  // what other regions dial; no host: it dials them
  std::uint32_t workers = 1;
  intra::Device device = intra::Device::cpu;
  std::int64_t overlap_steps = -1;           // -1: sync.overlap_steps
  std::vector<std::string> data_files = {};  // empty: data.files
};

// Votes, but neither trains nor holds payloads.
struct WitnessConfig {
  std::string name;  // empty: none
  inter::Endpoint listen{.host = "127.0.0.1", .port = 0};
  inter::Endpoint advertise{};
};

struct SyncConfig {
  std::string founder;  // default: the first region in the file
  diloco::SyncRules rules{.staleness_max = 2,
                          .grace_min = std::chrono::seconds{5},
                          .grace_max = std::chrono::seconds{600},
                          .start_wait = std::chrono::seconds{300}};
  std::uint32_t overlap_steps = 1;  // a round's at most; delayed and eager always use all of them
  std::uint32_t warmup_k = 0;       // K while the learning rate warms up; 0: train.k
  bool k_auto = false;              // K is chosen while the run goes on
  std::uint32_t k_min = 0, k_max = 0;  // then; 0: an eighth of train.k, and eight times that
  std::uint32_t k_refit_rounds = 10;
  double k_price = 0.15;                  // lambda of diloco/pacing/objective.h
  std::uint64_t held_out_sequences = 16;  // evaluated in every round, when k_auto; 0: none
  std::uint64_t spool_bytes_max = 4ULL << 30;
};

struct LinksConfig {
  std::uint32_t connections = 0;  // 0: as many as the congestion control needs
  std::string congestion_control = "auto";
  std::optional<inter::Shape> topology;  // empty: as the links suggest
  std::filesystem::path prices;          // of traffic (prices.h); empty: not known
  double followers_mbit_s = 100;         // to all followers of this region; 0: none is served
};

struct Config : intra::Recipe {
  // Whether `causeway worker` trains. If not, a program of the user's does (docs/worker-api.md):
  // what is only for the built-in trainer says nothing then, and is neither checked nor shown.
  bool built_in_trainer() const { return !data.files.empty(); }

  std::string name;
  SyncConfig sync;
  bool binds_to_numa = true;     // a worker, to the node of its GPU
  std::string checkpoint_after;  // a command; empty: none
  bool keeps_all = false;        // all that a replay of the run needs
  // outer.optimizer as it was set, or as it was chosen (suitable_outer.h); empty: not chosen yet.
  std::optional<diloco::OuterOptions::Kind> outer_kind;
  bool outer_chosen = false;
  bool requires_doctor = false;  // before a region takes part for the first time
  LinksConfig links;
  diloco::EgressBudget budget;
  std::vector<RegionConfig> regions;  // as in the file
  WitnessConfig witness;
  std::filesystem::path certificates;  // PKI directory (by-hand runs)
  std::filesystem::path wan;           // scenario file for simulate; empty: none
};

// A configuration problem; what() is "file:line: key: problem; what is allowed". Exit code 2.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Who is to train.
enum class Trainer : std::uint8_t {
  as_configured,  // the built-in one if there is data.files
  built_in,       // a configuration without data.files is refused
  program,        // the user's, also if there is data.files
};

// `overrides`: "a.b=c" in TOML syntax, applied over the file. Relative paths in the file are
// relative to the current directory.
Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   Trainer trainer = Trainer::as_configured);

std::string to_toml(const Config& config);  // resolved, complete, loadable
// Sorted "key = value" lines of everything that all regions must share.
std::string shared_settings(const Config& config);
// Likewise of what a region's coordinator and its workers must share, but for who the regions are:
// the log says that.
std::string region_settings(const Config& config, const std::string& region);
std::string reference_markdown();  // docs/configuration.md

// What links.followers_mbit_s comes to.
std::uint64_t follower_bytes_per_s(const Config& config);
// How many steps the rounds have.
diloco::Pace pace(const Config& config);
// How K is chosen while the run goes on.
diloco::KPolicyOptions k_policy(const Config& config);

// Whether a codec drops coordinates. It can be understood.
bool is_sparse(const std::string& codec);
// Whether any tensor's does, in the configuration or with another codec of matrices.
bool has_sparse_codec(const Config& config);
bool has_sparse_codec(const Config& config, const std::string& matrix);
// What sync.exchange comes to with this variant and such a codec.
diloco::ExchangeKind exchange_with(diloco::ExchangeKind set,
                                   diloco::OverlapOptions::Variant variant, bool sparse);

// Of its regions, as in the file.
std::vector<std::string> names_of(const Config& config);
// Throws ConfigError if there is none of that name (--region).
const RegionConfig& region_in(const Config& config, const std::string& name);
// What each process is given; the coordinator fills in what this leaves out.
diloco::ProtocolOptions protocol_options(const Config& config, const std::string& region);
intra::WorkerOptions worker_options(const Config& config, const std::string& region,
                                    std::uint32_t rank,
                                    const std::filesystem::path& region_directory);

}  // namespace causeway::run
