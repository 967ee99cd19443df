// What a coordinator shows of itself in files, for displays and reports: status.json (now),
// events.jsonl (what happened) and listening_port. docs/outputs.md has the fields.
#pragma once

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/spdlog.h>

#include "diloco/log/membership.h"
#include "diloco/log/record.h"
#include "diloco/pacing/egress_meter.h"
#include "diloco/worker/worker_session.h"
#include "inter/mesh/mesh.h"

namespace causeway::diloco {

// What a coordinator waits for: logged if it is not over soon, and counted by member.

// As a word: "eu" is not in "eu-west".
inline bool mentions(std::string_view sentence, std::string_view name) {
  const auto in_names = [&](std::size_t at) {
    return at < sentence.size() &&
           (std::isalnum(static_cast<unsigned char>(sentence[at])) || sentence[at] == '-');
  };
  for (auto at = sentence.find(name); at != sentence.npos; at = sentence.find(name, at + 1)) {
    if ((at == 0 || !in_names(at - 1)) && !in_names(at + name.size())) return true;
  }
  return false;
}

class WaitLog {
 public:
  // To be called again and again, at equal intervals: `what` is waited for in `round`; empty:
  // nothing.
  void note(const std::string& region, const std::string& what, Round round,
            const Membership& membership) {
    log(region, what);
    if (round != round_) intervals_.clear();
    round_ = round;
    for (const Member& member : membership.members) {
      if (member.region != region && mentions(what, member.region)) ++intervals_[member.region];
    }
  }

  // The member that was waited for longest in `round`; empty: none.
  std::string longest(Round round) const {
    if (round != round_ || intervals_.empty()) return {};
    const auto shorter = [](const auto& one, const auto& other) {
      return one.second < other.second;
    };
    return std::ranges::max_element(intervals_, shorter)->first;
  }

 private:
  static constexpr std::chrono::seconds kLogInterval{10};

  void log(const std::string& region, const std::string& what) {
    const auto now = std::chrono::steady_clock::now();
    if (what.empty() || what_.empty()) {
      logged_at_ = now;
    } else if (now >= logged_at_ + kLogInterval) {
      spdlog::info("{}: waiting for {}", region, what);
      logged_at_ = now;
    }
    what_ = what;
  }

  std::string what_;
  std::chrono::steady_clock::time_point logged_at_;
  Round round_ = 0;
  std::map<std::string, std::uint64_t> intervals_;
};

struct CoordinatorStatus {
  std::string region;
  std::string run_id;
  std::string settings_digest;         // settings_digest() of greeting.h
  Round version = 0;                   // rounds applied by the worker
  Round round = 0;                     // the open round: records in the ledger
  std::uint32_t workers = 1;           // that the region is to have
  std::vector<std::uint32_t> missing;  // ranks that it goes on without
  std::uint16_t listening_port = 0;
  std::string waiting_for;
  std::string waited_for;  // the member that the open round waited for longest; empty: none
  std::string leader;      // empty: none known
  std::uint64_t term = 0;
  DataShare share;                 // of the data, in the open round
  std::optional<DataDigest> data;  // that all regions must read; none: not known
  std::uint64_t steps = 0;         // inner steps of the run
  std::uint32_t k = 0;             // of the open round, unless it is shortened
  std::string k_change;            // the newest, with its reasons; empty: none
  Progress progress;
  std::map<std::string, inter::LinkStats> links;  // since this process started
  std::uint64_t spool_bytes = 0, spool_capacity_bytes = 0;
  std::optional<double> egress_cost;          // of this region, since the run began
  double run_egress_cost = 0;                 // of all, as the records say
  std::map<std::string, double> egress_said;  // by each region, as far as it is known here
  std::optional<double> run_egress_forecast;  // at the end of the run
  std::vector<EgressForecast> budget;         // each limit
  Round rounds_kept = 0;                      // of which late work counts
  bool falls_behind = false;                  // so far that what it makes no longer counts
  std::string last_error;                     // logged since this process started; empty: none
  bool finished = false;
};

// An applied round.
struct AppliedRound {
  CommitRecord record;
  std::optional<Contribution> own;  // to this round, listed or not
  std::uint32_t steps = 0;          // nominal inner steps
  std::uint64_t steps_so_far = 0;   // of the run, with those of this round
  Digest state{};                   // after applying
};

// How long the run still takes, as the newest rounds show it. Those that a region only catches up
// with take no time and say nothing.
class TimeLeft {
 public:
  void add(double time_s, std::uint64_t step, bool catches_up);
  std::optional<double> seconds(std::uint64_t steps) const;  // until so many; none: not known yet

 private:
  static constexpr std::size_t kWindow = 10;
  struct Taken {
    double seconds = 0;
    std::uint64_t steps = 0;
  };
  std::deque<Taken> rounds_;  // the oldest first
  std::optional<double> newest_s_;
  std::uint64_t step_ = 0;
};

class StatusFiles {
 public:
  // Traffic counters go on from what an earlier process left in status.json.
  StatusFiles(std::filesystem::path directory, std::string region);

  void write_listening_port(std::uint16_t port);
  void write(const CoordinatorStatus& status);              // only if something changed
  std::string text(const CoordinatorStatus& status) const;  // of status.json
  // Returns the line of events.jsonl, without its end.
  std::string add_round(const AppliedRound& round, const CoordinatorStatus& status);
  Round next_round() const { return next_round_; }  // after the newest added, ever
  // What an earlier process wrote.
  double earlier_egress_cost() const { return earlier_egress_cost_; }
  const std::map<std::string, double>& earlier_egress_said() const { return earlier_egress_said_; }
  void add_event(const std::string& event, const std::string& peer, const std::string& text,
                 Round round);

 private:
  void add_k_decision(const CommitRecord& record);
  std::map<std::string, inter::LinkStats> totals(const CoordinatorStatus& status) const;
  void append_line(const std::string& line);

  std::filesystem::path directory_;
  std::string region_;
  TimeLeft time_left_;
  std::map<std::string, inter::LinkStats> earlier_;
  double earlier_egress_cost_ = 0;
  std::map<std::string, double> earlier_egress_said_;
  std::string written_;
  Round next_round_ = 0;
  std::optional<double> applied_unix_s_;  // the newest round, by this process
};

}  // namespace causeway::diloco
