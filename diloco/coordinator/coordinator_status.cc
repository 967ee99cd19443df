#include "diloco/coordinator/coordinator_status.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"
#include "diloco/worker/progress_json.h"
#include "diloco/worker/stream/frame.h"

namespace causeway::diloco {
namespace {

using Json = nlohmann::ordered_json;

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

struct Traffic {
  std::uint64_t tx_bytes = 0, rx_bytes = 0;
};

Traffic sum(const std::map<std::string, inter::LinkStats>& links) {
  Traffic total;
  for (const auto& [peer, link] : links) {
    total.tx_bytes += link.tx_bytes;
    total.rx_bytes += link.rx_bytes;
  }
  return total;
}

Json to_json(const DataShare& share) {
  return {
      {"index", share.index}, {"count", share.count}, {"pass", share.pass}, {"begin", share.begin}};
}

Json to_json(const std::optional<DataDigest>& data) {
  if (!data) return nullptr;
  return {{"sha256", data->whole ? Json(to_hex(*data->whole)) : Json(nullptr)},
          {"sample_sha256", to_hex(data->sample)}};
}

double in_mbit(double bytes_per_s) {
  return std::round(8e-3 * bytes_per_s) / 1e3;
}

Json to_json(const std::map<std::string, inter::LinkStats>& links) {
  Json json = Json::object();
  for (const auto& [peer, link] : links) {
    json[peer] = {
        {"up", link.up},
        {"via", link.via},
        {"tx_bytes", link.tx_bytes},
        {"rx_bytes", link.rx_bytes},
        {"round_trip_ms", std::chrono::duration<double, std::milli>(link.round_trip).count()},
        {"connects", link.connects},
        {"data_connections", link.data_connections},
        {"rate_mbit_s", in_mbit(link.rate_bytes_per_s)},
        {"rate_p50_mbit_s", in_mbit(link.rate_p50_bytes_per_s)},
        {"rate_p05_mbit_s", in_mbit(link.rate_p05_bytes_per_s)},
        {"stream_rate_mbit_s", in_mbit(link.stream_rate_bytes_per_s)},
        {"loss", std::round(1e6 * link.loss) / 1e6}};
  }
  return json;
}

Json to_json(const EgressForecast& forecast) {
  static constexpr const char* kPeriods[] = {"day", "month", "run"};
  const Spending& spending = forecast.spending;
  return {{"period", kPeriods[static_cast<std::size_t>(spending.period)]},
          {"limit", spending.limit},
          {"spent", spending.spent},
          {"forecast", forecast.at_end},
          {"round_cost", spending.round_cost},
          {"until_unix_s", spending.until_unix_s}};
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json egress_json(const CoordinatorStatus& status) {
  if (!status.egress_cost) return nullptr;
  Json json = {{"cost", *status.egress_cost},
               {"run_cost", status.run_egress_cost},
               {"said", Json::object()},
               {"run_forecast", nullptr},
               {"limits", Json::array()}};
  for (const auto& [region, cost] : status.egress_said) json["said"][region] = cost;
  if (status.run_egress_forecast) json["run_forecast"] = *status.run_egress_forecast;
  for (const EgressForecast& forecast : status.budget) json["limits"].push_back(to_json(forecast));
  return json;
}

// The round after the last one in the file; lines that are no rounds, or not whole, do not count.
Round round_after(const std::filesystem::path& events) {
  constexpr std::streamoff kTailBytes = 256 << 10;
  std::ifstream file(events, std::ios::binary | std::ios::ate);
  if (!file) return 0;
  file.seekg(std::max<std::streamoff>(0, file.tellg() - kTailBytes));
  Round next = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const bool round = json.is_object() && json.contains("participants") &&
                       json.contains("round") && json["round"].is_number_unsigned();
    if (round) next = json["round"].get<Round>() + 1;
  }
  return next;
}

// Contributions of earlier rounds that this one lists.
Json late(const CommitRecord& record) {
  Json list = Json::array();
  for (const Participant& participant : record.participants) {
    if (participant.round == record.round) continue;
    list.push_back({{"region", participant.region},
                    {"round", participant.round},
                    {"part", participant.part},
                    {"weight", participant.weight}});
  }
  return list;
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

StatusFiles::StatusFiles(std::filesystem::path directory, std::string region)
    : directory_(std::move(directory)),
      region_(std::move(region)),
      next_round_(round_after(directory_ / "events.jsonl")) {
  const std::string before = read_file(directory_ / "status.json").value_or("");
  if (checksum_of_json(before) == Checksum::wrong) {
    spdlog::error(
        "{} is damaged: its checksum is not that of its text. What this region paid and sent "
        "before "
        "is counted from 0",
        (directory_ / "status.json").string());
    return;
  }
  const Json old = Json::parse(before, nullptr, false);
  if (!old.is_object()) return;
  const Json egress = old.value("egress", Json());
  if (egress.is_object() && egress.contains("cost") && egress["cost"].is_number())
    earlier_egress_cost_ = std::max(0.0, egress["cost"].get<double>());
  const Json said = egress.is_object() ? egress.value("said", Json::object()) : Json::object();
  for (const auto& [name, cost] : said.items()) {
    if (cost.is_number()) earlier_egress_said_[name] = cost.get<double>();
  }
  if (!old.contains("links") || !old["links"].is_object()) return;
  for (const auto& [peer, link] : old["links"].items()) {
    if (!link.is_object()) continue;
    const auto counter = [&link = link](const char* name) {
      const auto found = link.find(name);
      const bool valid = found != link.end() && found->is_number_unsigned();
      return valid ? found->get<std::uint64_t>() : std::uint64_t{0};
    };
    earlier_[peer] = {.tx_bytes = counter("tx_bytes"),
                      .rx_bytes = counter("rx_bytes"),
                      .connects = counter("connects")};
  }
}

void StatusFiles::write_listening_port(std::uint16_t port) {
  replace_file(directory_ / "listening_port", fmt::format("{}\n", port), Durability::visible);
}

std::map<std::string, inter::LinkStats> StatusFiles::totals(const CoordinatorStatus& status) const {
  std::map<std::string, inter::LinkStats> links = status.links;
  for (const auto& [peer, before] : earlier_) {
    inter::LinkStats& link = links[peer];
    link.tx_bytes += before.tx_bytes;
    link.rx_bytes += before.rx_bytes;
    link.connects += before.connects;
  }
  return links;
}

void StatusFiles::write(const CoordinatorStatus& status) {
  std::string text = this->text(status);
  if (text == written_) return;
  replace_file(directory_ / "status.json", text, Durability::visible);
  written_ = std::move(text);
}

std::string StatusFiles::text(const CoordinatorStatus& status) const {
  const auto links = totals(status);
  const Traffic traffic = sum(links);
  const Json json = {{"region", status.region},
                     {"format", kJsonFormat},
                     {"xxh3", kNoChecksum},
                     {"pid", ::getpid()},
                     {"run_id", status.run_id},
                     {"settings_sha256", status.settings_digest},
                     {"version", status.version},
                     {"round", status.round},
                     {"workers", status.workers},
                     {"missing_ranks", status.missing},
                     {"degraded", !status.missing.empty()},
                     {"listening_port", status.listening_port},
                     {"waiting", status.waiting_for},
                     {"leader", status.leader},
                     {"term", status.term},
                     {"share", to_json(status.share)},
                     {"data", to_json(status.data)},
                     {"steps", status.steps},
                     {"k", status.k},
                     {"k_change", status.k_change},
                     {"progress", to_json(status.progress)},
                     {"wan_tx_bytes", traffic.tx_bytes},
                     {"wan_rx_bytes", traffic.rx_bytes},
                     {"links", to_json(links)},
                     {"egress", egress_json(status)},
                     {"spool_bytes", status.spool_bytes},
                     {"spool_capacity_bytes", status.spool_capacity_bytes},
                     {"rounds_kept", status.rounds_kept},
                     {"falls_behind", status.falls_behind},
                     {"applied_unix_s", or_null(applied_unix_s_)},
                     {"left_s", or_null(time_left_.seconds(status.steps))},
                     {"last_error", status.last_error},
                     {"finished", status.finished}};
  // What a worker calls its phase is not ours to trust with its encoding.
  return json_with_checksum(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string StatusFiles::add_round(const AppliedRound& round, const CoordinatorStatus& status) {
  Json participants = Json::array();
  bool listed = false;
  for (const Participant& participant : round.record.participants) {
    participants.push_back(participant.region);
    listed = listed || participant.region == region_;
  }
  const Traffic traffic = sum(totals(status));
  const double time_s = unix_seconds();
  const bool catches_up = status.round > round.record.round + 2;
  // A worker that attached anew has not said where it is.
  const std::uint64_t step = std::max(status.progress.step(), round.steps_so_far);
  time_left_.add(time_s, step, catches_up);
  applied_unix_s_ = time_s;
  Json json = {{"round", round.record.round},
               {"region", region_},
               {"participants", participants},
               {"listed", listed},
               {"loss", status.progress.loss()},
               {"val_loss", nullptr},
               {"tokens_per_s", status.progress.tokens_per_s()},
               {"waited_for", status.waited_for},
               {"step", step},
               {"tokens", status.progress.tokens()},
               {"delta_norm", nullptr},
               {"error_norm", nullptr},
               {"payload_bytes", nullptr},
               {"wan_tx_bytes", traffic.tx_bytes},
               {"wan_rx_bytes", traffic.rx_bytes},
               {"compute_s", status.progress.compute_s()},
               {"wait_s", status.progress.wait_s()},
               {"late", late(round.record)},
               {"steps", round.steps},
               {"held_out_loss", nullptr},
               {"state", to_hex(round.state)},
               {"left_s", or_null(time_left_.seconds(status.steps))},
               {"time_unix_s", time_s}};
  if (round.own) {
    json["delta_norm"] = round.own->delta_norm;
    json["error_norm"] = round.own->error_norm;
    json["payload_bytes"] = round.own->payload.size_bytes;
  }
  if (round.record.measured && round.record.measured->held_out_loss)
    json["held_out_loss"] = *round.record.measured->held_out_loss;
  if (status.progress.val_version() == round.record.round + 1 && status.progress.has_val_loss())
    json["val_loss"] = status.progress.val_loss();
  std::string line = json.dump();
  append_line(line);
  if (round.record.k_decision) add_k_decision(round.record);
  next_round_ = round.record.round + 1;
  return line;
}

void StatusFiles::add_k_decision(const CommitRecord& record) {
  static constexpr const char* kNames[] = {"k_kept",      "k_changed", "k_confirmed", "k_reverted",
                                           "k_stretched", "k_paused",  "k_relaxed"};
  const KDecision& decision = *record.k_decision;
  append_line(Json{{"event", kNames[static_cast<std::size_t>(decision.verdict)]},
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
  Json json = {{"event", event}, {"region", region_}, {"round", round}};
  if (!peer.empty()) json["peer"] = peer;
  if (!text.empty()) json["text"] = text;
  json["time_unix_s"] = unix_seconds();
  append_line(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void StatusFiles::append_line(const std::string& line) {
  append_to_file(directory_ / "events.jsonl", line + "\n");
}

}  // namespace causeway::diloco
