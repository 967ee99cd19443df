// What a coordinator shows of itself in files, for displays and reports: status.json
// (region_status.h), events.jsonl (what happened) and listening_port. docs/outputs.md has the keys.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "diloco/coordinator/region_status.h"
#include "diloco/log/record.h"
#include "diloco/maths/digest.h"

namespace causeway::diloco {

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
  using Clock = std::chrono::steady_clock;

  // Traffic counters go on from what an earlier process left in status.json, and the worker is
  // shown as it was seen then until it reports, if that is of this run or of none yet. `run_id`:
  // empty where it is not known yet.
  StatusFiles(std::filesystem::path directory, std::string region, const std::string& run_id = {});

  void write_listening_port(std::uint16_t port);
  // Of this process, without `applied_unix_s` and `left_s`.
  // If nothing changed, the file's time alone: whoever looks sees that this process gets around to
  // its work.
  void write(const RegionStatus& status);
  // The same where the disk has no room for another file, or the process no descriptor: into one
  // that was kept open for that.
  void write_into_reserve(const RegionStatus& status);
  std::string text(const RegionStatus& status) const;  // of status.json
  // Returns the line of events.jsonl, without its end. `now` is of a clock that nobody
  // sets: a change of the host's date would make left_s wrong by years.
  std::string add_round(const AppliedRound& round, const RegionStatus& status,
                        Clock::time_point now = Clock::now());
  Round next_round() const { return next_round_; }  // after the newest added, ever
  // What an earlier process wrote.
  double earlier_egress_cost() const { return earlier_egress_cost_; }
  const std::map<std::string, double>& earlier_egress_said() const { return earlier_egress_said_; }
  const std::string& earlier_phase() const { return earlier_progress_.phase(); }  // of the worker
  void add_event(const std::string& event, const std::string& peer, const std::string& text,
                 Round round);

 private:
  void add_k_decision(const CommitRecord& record);
  nlohmann::ordered_json to_line(const AppliedRound& round, const RegionStatus& status,
                                 double time_s) const;
  // With what earlier processes sent, and saw of the worker.
  RegionStatus with_earlier(RegionStatus status) const;
  void append_line(const std::string& line);
  std::filesystem::path reserve_path() const { return directory_ / "status.json.reserve"; }
  void keep_reserve();

  std::filesystem::path directory_;
  std::string region_;
  TimeLeft time_left_;
  std::map<std::string, LinkTotals> earlier_;  // by peer
  double earlier_egress_cost_ = 0;
  std::map<std::string, double> earlier_egress_said_;
  Progress earlier_progress_;
  std::string written_;
  std::optional<inter::File> reserve_;
  Round next_round_ = 0;
  std::optional<double> applied_unix_s_;  // the newest round, by this process
};

}  // namespace causeway::diloco
