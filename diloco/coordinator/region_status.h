// What a region shows of itself: status.json, which its coordinator writes, and its answer to an
// observer. One form for those who write and those who read; docs/outputs.md explains the keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "diloco/maths/digest.h"
#include "diloco/maths/train.h"
#include "diloco/pacing/egress_meter.h"
#include "diloco/worker/worker_session.h"
#include "inter/mesh/mesh.h"

namespace causeway::diloco {

// A member of each of these structs has the name of its key, unless region_status.cc says another.

struct LinkStatus {
  bool up = false;
  std::string via = {};                      // the region by way of which the peer is reached
  std::uint64_t tx_bytes = 0, rx_bytes = 0;  // over all restarts
  double round_trip_ms = 0;
  std::uint64_t connects = 0, data_connections = 0;
  double rate_mbit_s = 0, rate_p50_mbit_s = 0, rate_p05_mbit_s = 0, stream_rate_mbit_s = 0;
  double loss = 0;
};
LinkStatus link_status(const inter::LinkStats& link);

// What a link carried, over all restarts.
struct LinkTotals {
  std::uint64_t tx_bytes = 0, rx_bytes = 0, connects = 0;
};
// Of LinkStatus or inter::LinkStats.
LinkTotals link_totals(const auto& link) {
  return {.tx_bytes = link.tx_bytes, .rx_bytes = link.rx_bytes, .connects = link.connects};
}

// Of a budget; money in the currency of links.prices.
struct EgressLimit {
  std::string period;  // "day", "month" or "run"
  double limit = 0, spent = 0, forecast = 0, round_cost = 0, until_unix_s = 0;
};
EgressLimit egress_limit(const EgressForecast& forecast);

struct EgressStatus {
  double cost = 0;                          // of this region, since the run began
  double run_cost = 0;                      // of all, as the records say
  std::map<std::string, double> said = {};  // by each region, as far as it is known here
  std::optional<double> run_forecast = {};  // at the end of the run; where there is a budget
  std::vector<EgressLimit> limits = {};
  bool pauses = false;  // the open round lasts until there is new money
};

// In hex.
struct DataStatus {
  std::optional<std::string> whole;  // none: not all is read yet
  std::string sample;
};
DataStatus data_status(const DataDigest& data);

// Who speaks for a region of so many workers: the first of its ranks that is there, in words.
std::string speaker_of(std::uint32_t workers, const std::vector<std::uint32_t>& missing_ranks);

struct RegionStatus {
  std::string region;
  std::uint64_t pid = 0;
  std::string run_id;
  std::string settings_sha256;               // settings_digest() of greeting.h
  Round version = 0;                         // rounds applied by the worker
  Round round = 0;                           // the open round: records in the ledger
  std::uint32_t workers = 0;                 // that the region is to have; 0: a witness
  std::vector<std::uint32_t> missing_ranks;  // that are not attached; none once it is finished
  bool degraded = false;                     // others of its ranks are, and go on without them
  std::uint16_t listening_port = 0;
  std::string waiting;     // for whom and what
  std::string waited_for;  // the member that the open round waited for longest; for events.jsonl
  bool abstains = false;   // out of the run while its storage fails; `waiting` has the reason
  std::string leader;      // empty: none known
  std::uint64_t term = 0;
  DataShare share;                 // of the data, in the open round
  std::optional<DataStatus> data;  // that all regions must read; none: not known
  std::uint64_t steps = 0;         // inner steps of the run
  std::uint64_t k = 0;             // of the open round, unless it is shortened
  std::string k_change;            // the newest, with its reasons; empty: none
  Progress progress;
  bool loss_not_finite = false;           // the newest that was reported: NaN or infinite
  std::optional<double> reported_unix_s;  // by the worker; none: not since it attached
  std::uint64_t worker_silent_s = 0;      // since its last word, while it is to speak
  std::uint64_t wan_tx_bytes = 0, wan_rx_bytes = 0;  // over all links and restarts
  std::map<std::string, LinkStatus> links;
  std::map<std::string, LinkTotals> removed_links;  // to regions that are no members any more
  std::optional<EgressStatus> egress;               // none: no prices are known
  std::uint64_t spool_bytes = 0, spool_capacity_bytes = 0;
  Round rounds_kept = 0;                            // of which late work counts
  bool falls_behind = false;                        // so far that what it makes no longer counts
  std::optional<double> applied_unix_s;             // the newest round, by this process
  std::optional<double> left_s;                     // that the run still takes; none: not known yet
  std::optional<double> certificates_until_unix_s;  // its own and its authority's; none: not known
  std::string last_error;                           // logged since the process started; empty: none
  bool finished = false;

  // So late a word is worth telling: a worker that waits speaks twice a second, one that works
  // after each step, and a program of its own after all steps of a round.
  static constexpr std::uint64_t kSilentS = 10;
  bool worker_is_silent() const { return worker_silent_s >= kSilentS; }
  std::string speaker() const { return speaker_of(workers, missing_ranks); }
  bool lacks_workers() const { return workers > 0 && missing_ranks.size() >= workers; }
  // What it does or waits for; empty: no worker has worked yet.
  std::string state() const { return waiting.empty() ? progress.phase() : "waits for " + waiting; }
};

// In the order of docs/outputs.md; without a checksum.
nlohmann::ordered_json to_json(const RegionStatus& status);
// The same back. What is missing, null or of another type is as in an empty status. None if the
// text is not a JSON object: a file may be half-written or damaged.
std::optional<RegionStatus> parse_region_status(const std::string& text);

}  // namespace causeway::diloco
