// What a region's processes leave in its directory, as this program reads it: status.json (now and
// then), events.jsonl (one object per round), listening_port. Its result.json:
// intra/worker/worker_result.h. Missing and half-written files are normal while a run goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "diloco/coordinator/region_status.h"

namespace causeway::run {

using diloco::EgressLimit;
using diloco::LinkStatus;
using diloco::LinkTotals;
using diloco::RegionStatus;

// A coordinator was, in it. True also where this user may not look: whoever reads it says why not.
bool was_started(const std::filesystem::path& region_directory);
bool is_followers(const std::filesystem::path& directory);  // `causeway follow` keeps its own there
bool has_coordinator(const std::filesystem::path& region_directory);  // one runs in it now
// Where the regions of a run lie: of `causeway simulate` in its regions/, of one that was started
// by hand in the run's directory itself.
std::filesystem::path regions_folder(const std::filesystem::path& run);
// What `is_region` takes of that folder, sorted. Beside regions that were started by hand other
// files may lie. Empty: it is no run's directory.
std::vector<std::filesystem::path> regions_in(
    const std::filesystem::path& run,
    const std::function<bool(const std::filesystem::path&)>& is_region);
std::optional<RegionStatus> read_status(const std::filesystem::path& region_directory);
// Training loss of the last inner step: any number. None: not known yet, not reported, or it was
// no number.
std::optional<double> loss_of(const diloco::Progress& progress);

// What egress has cost and will have, of all regions together: of one that is not seen, what it
// said to the others.
struct RunEgress {
  double cost = 0, at_end = 0;
  std::vector<EgressLimit> limits = {};  // as the region says that has seen most
};
// None: no region knows its cost.
std::optional<RunEgress> run_egress(const std::vector<RegionStatus>& regions);
// "1.20 so far, about 4.80 at the end of the run; 0.80 of 1.00 a day, about 0.95 at its end"
std::string to_string(const RunEgress& egress);

// One line of events.jsonl: a round that was applied, or something else that happened (a link that
// went down, a snapshot adopted).
struct Event {
  std::string event;  // "round", "restore", "peer_down", ...
  std::uint64_t round = 0;
  std::string region;
  std::string state;  // of a round: hex digest of anchor and outer momentum after it
  std::string json;   // the whole line
};
std::optional<Event> parse_event(std::string line);  // none: the line is damaged
// In file order; damaged lines are left out.
std::vector<Event> read_events(const std::filesystem::path& file);
// Of one region's: the state after each round. A round may have been applied again, after a restart
// or because a contribution was taken out of it: the last time counts.
std::map<std::uint64_t, std::string> states_by_round(const std::vector<Event>& events);

// A process that had to be started again; `causeway simulate` keeps them in restarts.jsonl.
struct Restart {
  std::string process;      // "eu-west worker 0"
  std::uint64_t round = 0;  // rounds its region had applied
  std::string cause;
  double time_s = 0;  // since the run began
  std::string json;   // the whole line, filled in by read_restarts
};
void append_restarts(const std::filesystem::path& file, const std::vector<Restart>& restarts);
std::vector<Restart> read_restarts(const std::filesystem::path& file);

std::optional<std::uint16_t> read_listening_port(const std::filesystem::path& region_directory);

// One observation of a region while it trained; `causeway simulate` keeps them in progress.jsonl.
struct Sample {
  double time_s = 0;   // since the run began
  std::string region;  // or "baseline"
  std::uint64_t step = 0, version = 0, wan_tx_bytes = 0;
  std::optional<double> loss = {};  // nats per token, of the last inner step
  double tokens_per_s = 0;
  std::optional<double> val_loss = {};  // of a validation since the observation before; else none
};
void append_samples(const std::filesystem::path& file, const std::vector<Sample>& samples);
std::vector<Sample> read_samples(const std::filesystem::path& file);

std::string read_text_file(const std::filesystem::path& file);  // empty if there is none
// Complete under its name or not there. Throws std::system_error naming the file.
void write_text_file(const std::filesystem::path& file, const std::string& text);

// A run that failed, or that left files which cannot be used.

// what() says which one, and why. Exit code 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Of the system's clock, since 1970.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace causeway::run
