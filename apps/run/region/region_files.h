// What a region's processes leave in its directory, as this program reads it: status.json (now and
// then), events.jsonl (one object per round), listening_port. Its result.json:
// intra/worker/worker_result.h. Missing and half-written files are normal while a run goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace causeway::run {

// What status.json says of the cost of egress, of one region and of the run.

// In the currency of links.prices.
struct EgressLimit {
  std::string period;  // "day", "month" or "run"
  double limit = 0, spent = 0, forecast = 0;
};

struct EgressStatus {
  std::string region = {};
  double cost = 0;    // of this region, since the run began
  double at_end = 0;  // of the run, if it goes on as it did
  // Where there is a budget.
  std::optional<double> run_at_end = {};  // of all regions
  std::vector<EgressLimit> limits = {};
  std::map<std::string, double> said = {};  // by each region, as far as this one heard
};

// None: the region's coordinator knows no prices.
std::optional<EgressStatus> egress_of(const nlohmann::json& status);

// Of all regions together: of one that is not seen, what it said to the others.
struct RunEgress {
  double cost = 0, at_end = 0;
  std::vector<EgressLimit> limits = {};  // as the region says that has seen most
};
// None: no region knows its cost.
std::optional<RunEgress> sum(const std::vector<EgressStatus>& regions);
// "1.20 so far, about 4.80 at the end of the run; 0.80 of 1.00 a day, about 0.95 at its end"
std::string to_string(const RunEgress& egress);

struct LinkStatus {
  bool up = false;
  std::uint64_t tx_bytes = 0, rx_bytes = 0;  // since the coordinator's start
  double round_trip_ms = 0;
  std::string via;  // the region by way of which the peer is reached, while it is down
};

struct RegionStatus {
  std::uint64_t pid = 0;      // of the coordinator
  std::uint64_t version = 0;  // rounds applied
  std::uint64_t step = 0;
  double loss = 0;
  double tokens_per_s = 0;
  double mfu = 0;                                    // 0: unknown
  std::optional<double> val_loss;                    // the newest validation's
  std::string phase;                                 // of its worker; empty: none has worked yet
  std::string state;                                 // what it does or waits for
  bool finished = false;                             // the run is over there
  std::uint64_t k = 0;                               // of the open round
  std::string k_change;                              // the newest; empty: none
  std::uint64_t wan_tx_bytes = 0, wan_rx_bytes = 0;  // over the whole run
  std::map<std::string, LinkStatus> links;
  std::optional<EgressStatus> egress;
};
bool was_started(const std::filesystem::path& region_directory);  // a coordinator was, in it
std::optional<RegionStatus> read_status(const std::filesystem::path& region_directory);

// One line of events.jsonl: a round that was applied, or something else that happened (a link that
// went down, a snapshot adopted).
struct Event {
  std::string event;  // "round", "restore", "peer_down", ...
  std::uint64_t round = 0;
  std::string region;
  std::string state;  // of a round: hex digest of anchor and outer momentum after it
  std::string json;   // the whole line
};
// In file order; damaged lines are left out.
std::vector<Event> read_events(const std::filesystem::path& file);

// A process that had to be started again; `causeway simulate` keeps them in restarts.jsonl.
struct Restart {
  std::string process;      // "eu-west worker 0"
  std::uint64_t round = 0;  // rounds its region had applied
  std::string cause;
  double time_s = 0;  // since the run began
  std::string json;   // the whole line, filled in by read_restarts
};
void append_restart(const std::filesystem::path& file, const Restart& restart);
std::vector<Restart> read_restarts(const std::filesystem::path& file);

std::optional<std::uint16_t> read_listening_port(const std::filesystem::path& region_directory);

// One observation of a region while it trained; `causeway simulate` keeps them in progress.jsonl.
struct Sample {
  double time_s = 0;   // since the run began
  std::string region;  // or "baseline"
  std::uint64_t step = 0, version = 0, wan_tx_bytes = 0;
  double loss = 0, tokens_per_s = 0;
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
