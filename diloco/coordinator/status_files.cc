#include "diloco/coordinator/status_files.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"

namespace causeway::diloco {
namespace {

using OrderedJson = nlohmann::ordered_json;

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

OrderedJson or_null(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

constexpr std::size_t kReserveBytes = 64 << 10;  // several times a status.json

// The round after the last one in these bytes at the end of the file; lines that are no rounds, or
// not whole, do not count.
Round round_after(std::ifstream& file, std::streamoff begin) {
  file.clear();
  file.seekg(begin);
  Round next = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const bool round = json.is_object() && json.contains("participants") &&
                       json.contains("round") && json["round"].is_number_unsigned();
    if (round) next = json["round"].get<Round>() + 1;
  }
  return next;
}

// In all of it. Links that came and went for hours may have been noted since.
Round round_after(const std::filesystem::path& events) {
  std::ifstream file(events, std::ios::binary | std::ios::ate);
  if (!file) return 0;
  const std::streamoff size = file.tellg();
  for (std::streamoff tail_bytes = 256 << 10;; tail_bytes *= 4) {
    const std::streamoff begin = std::max<std::streamoff>(0, size - tail_bytes);
    const Round next = round_after(file, begin);
    if (next > 0 || begin == 0) return next;
  }
}

// Contributions of earlier rounds that this one lists.
OrderedJson late(const CommitRecord& record) {
  OrderedJson list = OrderedJson::array();
  for (const Participant& participant : record.participants) {
    if (participant.round == record.round) continue;
    list.push_back({{"region", participant.region},
                    {"round", participant.round},
                    {"part", participant.part},
                    {"weight", participant.weight}});
  }
  return list;
}

// To a LinkStatus or LinkTotals.
void add(const LinkTotals& before, auto& link) {
  link.tx_bytes += before.tx_bytes;
  link.rx_bytes += before.rx_bytes;
  link.connects += before.connects;
}

// A worker that attached anew has not said where it is.
std::uint64_t step_of(const AppliedRound& round, const RegionStatus& status) {
  return std::max(status.progress.step(), round.steps_so_far);
}

}  // namespace

// ---- TimeLeft ----

void TimeLeft::add(double time_s, std::uint64_t step, bool catches_up) {
  if (newest_s_ && !catches_up && step > step_) {
    rounds_.push_back({std::max(0.0, time_s - *newest_s_), step - step_});
    if (rounds_.size() > kWindow) rounds_.pop_front();
  }
  newest_s_ = time_s;
  step_ = step;
}

std::optional<double> TimeLeft::seconds(std::uint64_t steps) const {
  if (rounds_.empty() || steps <= step_) return std::nullopt;
  Taken all;
  for (const Taken& round : rounds_) {
    all.seconds += round.seconds;
    all.steps += round.steps;
  }
  return all.seconds / double(all.steps) * double(steps - step_);
}

// ---- StatusFiles ----

StatusFiles::StatusFiles(std::filesystem::path directory, std::string region,
                         const std::string& run_id)
    : directory_(std::move(directory)),
      region_(std::move(region)),
      next_round_(round_after(directory_ / "events.jsonl")) {
  keep_reserve();
  const std::string before = read_file(directory_ / "status.json").value_or("");
  if (checksum_of_json(before) == Checksum::wrong) {
    spdlog::error(
        "{} is damaged: its checksum is not that of its text. What this region paid and sent "
        "before "
        "is counted from 0",
        (directory_ / "status.json").string());
    return;
  }
  const auto old = parse_region_status(before);
  if (!old) return;
  // Somebody began anew in the directory of another run. What the region paid in this one, if its
  // ledger alone was lost, the records say.
  if (!old->run_id.empty() && old->run_id != run_id) {
    next_round_ = 0;
    return;
  }
  earlier_progress_ = old->progress;
  if (old->egress) {
    earlier_egress_cost_ = std::max(0.0, old->egress->cost);
    earlier_egress_said_ = old->egress->said;
  }
  earlier_ = old->removed_links;
  for (const auto& [peer, link] : old->links) earlier_[peer] = link_totals(link);
}

void StatusFiles::write_listening_port(std::uint16_t port) {
  replace_file(directory_ / "listening_port", fmt::format("{}\n", port), Durability::visible);
}

RegionStatus StatusFiles::with_earlier(RegionStatus status) const {
  for (const auto& [peer, before] : earlier_) {
    const auto link = status.links.find(peer);
    link == status.links.end() ? add(before, status.removed_links[peer])
                               : add(before, link->second);
  }
  const auto count = [&status](const auto& links) {
    for (const auto& [peer, link] : links) {
      status.wan_tx_bytes += link.tx_bytes;
      status.wan_rx_bytes += link.rx_bytes;
    }
  };
  count(status.links);
  count(status.removed_links);
  if (status.progress.phase().empty()) status.progress = earlier_progress_;  // nothing is known yet
  if (status.lacks_workers()) status.progress.set_tokens_per_s(0);
  return status;
}

void StatusFiles::write(const RegionStatus& status) {
  std::string text = this->text(status);
  const std::filesystem::path path = directory_ / "status.json";
  if (text == written_) return touch(path);
  replace_file(path, text, Durability::visible);
  written_ = std::move(text);
}

void StatusFiles::keep_reserve() {
  try {
    reserve_.emplace(reserve_path(), O_WRONLY | O_CREAT | O_NOFOLLOW);
    // Not over what is there: somebody may still be reading it.
    const std::uint64_t there = reserve_->regular_size().value_or(kReserveBytes);
    if (there < kReserveBytes)
      reserve_->write_at(there, std::vector<std::byte>(kReserveBytes - there));
  } catch (const std::system_error&) {  // the disk is full: there may be one of an earlier process
  }
}

void StatusFiles::write_into_reserve(const RegionStatus& status) {
  std::string text = this->text(status);
  if (!reserve_) keep_reserve();
  if (text == written_ || !reserve_) return;
  reserve_->write_at(0, std::as_bytes(std::span(text)));
  reserve_->resize(text.size());
  // What was shown is the reserve for the next one, where the file system can do that.
  const std::filesystem::path path = directory_ / "status.json";
  if (::renameat2(AT_FDCWD, reserve_path().c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0)
    std::filesystem::rename(reserve_path(), path);
  reserve_.reset();  // its descriptor is the next one's
  keep_reserve();
  written_ = std::move(text);
}

std::string StatusFiles::text(const RegionStatus& status) const {
  RegionStatus shown = with_earlier(status);
  shown.applied_unix_s = applied_unix_s_;
  if (!shown.lacks_workers()) shown.left_s = time_left_.seconds(status.steps);
  // What a worker calls its phase is not ours to trust with its encoding.
  return json_with_checksum(
      to_json(shown).dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

std::string StatusFiles::add_round(const AppliedRound& round, const RegionStatus& status,
                                   Clock::time_point now) {
  const double time_s = unix_seconds();
  const double steady_s = std::chrono::duration<double>(now.time_since_epoch()).count();
  const bool catches_up = status.round > round.record.round + 2;
  time_left_.add(steady_s, step_of(round, status), catches_up);
  applied_unix_s_ = time_s;
  std::string line = to_line(round, with_earlier(status), time_s).dump();
  append_line(line);
  if (round.record.k_decision) add_k_decision(round.record);
  next_round_ = round.record.round + 1;
  return line;
}

OrderedJson StatusFiles::to_line(const AppliedRound& round, const RegionStatus& status,
                                 double time_s) const {
  const CommitRecord& record = round.record;
  const Progress& progress = status.progress;
  std::vector<std::string> participants;
  for (const Participant& one : record.participants) participants.push_back(one.region);
  const bool validated = progress.val_version() == record.round + 1 && progress.has_val_loss();
  const auto of_own = [&](auto value) {
    return round.own ? OrderedJson(value(*round.own)) : OrderedJson(nullptr);
  };
  return {
      {"round", record.round},
      {"region", region_},
      {"participants", participants},
      {"listed", std::ranges::find(participants, region_) != participants.end()},
      {"loss", progress.has_loss() ? OrderedJson(progress.loss()) : OrderedJson(nullptr)},
      {"val_loss", validated ? OrderedJson(progress.val_loss()) : OrderedJson(nullptr)},
      {"tokens_per_s", progress.tokens_per_s()},
      {"waited_for", status.waited_for},
      {"step", step_of(round, status)},
      {"tokens", progress.tokens()},
      {"delta_norm", of_own([](const Contribution& own) { return own.delta_norm; })},
      {"error_norm", of_own([](const Contribution& own) { return own.error_norm; })},
      {"payload_bytes", of_own([](const Contribution& own) { return own.payload.size_bytes; })},
      {"wan_tx_bytes", status.wan_tx_bytes},
      {"wan_rx_bytes", status.wan_rx_bytes},
      {"compute_s", progress.compute_s()},
      {"wait_s", progress.wait_s()},
      {"late", late(record)},
      {"steps", round.steps},
      {"steps_so_far", round.steps_so_far},
      {"held_out_loss", record.measured ? or_null(record.measured->held_out_loss) : OrderedJson()},
      {"state", to_hex(round.state)},
      {"left_s", or_null(time_left_.seconds(status.steps))},
      {"time_unix_s", time_s}};
}

void StatusFiles::add_k_decision(const CommitRecord& record) {
  static constexpr const char* kNames[] = {"k_kept",      "k_changed", "k_confirmed", "k_reverted",
                                           "k_stretched", "k_paused",  "k_relaxed"};
  const KDecision& decision = *record.k_decision;
  append_line(OrderedJson{{"event", kNames[static_cast<std::size_t>(decision.verdict)]},
                          {"region", region_},
                          {"round", record.round},
                          {"from", decision.from},
                          {"k", decision.k},
                          {"step_s", decision.step_s},
                          {"prepare_s", decision.prepare_s},
                          {"exchange_s", decision.exchange_s},
                          {"time_ratio", decision.time_ratio},
                          {"held_out_before", decision.held_out_before},
                          {"held_out_after", decision.held_out_after},
                          {"standard_error", decision.standard_error},
                          {"text", to_string(decision)},
                          {"time_unix_s", unix_seconds()}}
                  .dump());
}

void StatusFiles::add_event(const std::string& event, const std::string& peer,
                            const std::string& text, Round round) {
  OrderedJson json = {{"event", event}, {"region", region_}, {"round", round}};
  if (!peer.empty()) json["peer"] = peer;
  if (!text.empty()) json["text"] = text;
  json["time_unix_s"] = unix_seconds();
  append_line(json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

void StatusFiles::append_line(const std::string& line) {
  append_to_file(directory_ / "events.jsonl", line + "\n");
}

}  // namespace causeway::diloco
