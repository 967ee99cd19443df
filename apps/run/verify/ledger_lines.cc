#include "apps/run/verify/ledger_lines.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"
#include "apps/run/page/format.h"
#include "apps/run/region/region_files.h"
#include "apps/run/verify/membership_story.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

std::string six_digits(double value) {
  return fmt::format("{:.6g}", value);
}

std::string contribution_text(const diloco::CommitRecord& record, const diloco::Participant& one) {
  std::string text = one.region + " " + six_digits(one.weight);
  if (one.round < record.round) text += fmt::format(" (late, of round {})", one.round);
  if (one.part > 0) text += fmt::format(" (part {})", one.part);
  return text;
}

// Regions that stand in the record and contributed nothing to it.
std::vector<const diloco::Standing*> absent(const diloco::CommitRecord& record) {
  std::vector<const diloco::Standing*> absent;
  for (const diloco::Standing& one : record.standings) {
    if (std::ranges::count(record.participants, one.region, &diloco::Participant::region) == 0)
      absent.push_back(&one);
  }
  return absent;
}

std::string round_line(const diloco::CommitRecord& record) {
  std::string listed, missing;
  for (const diloco::Participant& one : record.participants)
    inter::append_item(listed, contribution_text(record, one));
  for (const diloco::Standing* one : absent(record)) inter::append_item(missing, one->region);
  std::string taken_out;
  for (const diloco::Participant& one : record.withdrawn)
    inter::append_item(taken_out, contribution_text(record, one));
  std::string line = fmt::format(
      "round {}{}: {}", record.round,
      taken_out.empty() ? "" : " again, without " + taken_out + ", which no region had any more",
      listed.empty() ? "nobody contributed" : listed);
  if (!missing.empty()) line += "; without " + missing;
  if (!record.sums.empty()) line += fmt::format("; as the sums of {} shards", record.sums.size());
  if (record.skip_momentum) line += "; momentum left as it was";
  if (record.k_decision) line += "; " + to_string(*record.k_decision);
  return line;
}

std::string standing_text(const diloco::Standing& one) {
  if (one.liveness == 0) return one.region + " is not waited for";
  return fmt::format("{} (liveness {}, {} steps)", one.region, six_digits(one.liveness),
                     one.next_k);
}

// Of a contribution in shards: what its region made, and the name of what that was cut into.
std::string payload_text(const diloco::Participant& one) {
  const std::string bytes = format_bytes(double(one.payload.size_bytes));
  if (!one.whole) return "payload " + diloco::to_hex(one.payload.hash) + " of " + bytes;
  return "payload " + diloco::to_hex(*one.whole) + " in shards " +
         diloco::to_hex(one.payload.hash) + " of " + bytes;
}

std::vector<std::string> round_details(const diloco::CommitRecord& record,
                                       const ReportedNorms& norms) {
  const std::string version = std::to_string(record.round);
  std::vector<std::string> lines{"  from version " + version + ", state " +
                                 diloco::to_hex(record.state)};
  const auto reported = norms.find(record.round);
  for (const diloco::Participant& one : record.participants) {
    lines.push_back("  " + contribution_text(record, one) + ": " + format_count(one.tokens) +
                    " tokens, samples " + format_count(one.data_begin) + " to " +
                    format_count(one.data_cursor) + " of its share, " + payload_text(one) +
                    (one.proof ? ", proof " + diloco::to_hex(*one.proof) : ""));
    if (reported == norms.end() || !reported->second.contains(one.region)) continue;
    const Norms& norm = reported->second.at(one.region);
    lines.push_back("    norm " + six_digits(norm.delta) + ", dropped by compression " +
                    six_digits(norm.error) + " (reported by it, not signed)");
  }
  for (std::size_t i = 0; i < record.sums.size(); ++i)
    lines.push_back(fmt::format("  sum of shard {}: {} of {}", i,
                                diloco::to_hex(record.sums[i].hash),
                                format_bytes(double(record.sums[i].size_bytes))));
  if (record.momentum) lines.push_back("  outer momentum " + six_digits(*record.momentum));
  std::string standings;
  for (const diloco::Standing& one : record.standings)
    inter::append_item(standings, standing_text(one));
  if (!standings.empty()) lines.push_back("  next round: " + standings);
  lines.push_back(fmt::format("  next round: {} steps, waits for the last regions up to {}",
                              record.next_k, format_duration(record.next_grace_ms / 1000.0)));
  if (record.next_sharded) lines.push_back("  next round: in shards");
  if (record.expired_before > 0)
    lines.push_back(fmt::format("  contributions of rounds before {} are no longer listed",
                                record.expired_before));
  return lines;
}

namespace {

nlohmann::json contribution_json(const diloco::Participant& one) {
  nlohmann::json json{{"region", one.region},
                      {"round", one.round},
                      {"part", one.part},
                      {"weight", one.weight},
                      {"tokens", one.tokens},
                      {"data_begin", one.data_begin},
                      {"data_cursor", one.data_cursor},
                      {"payload", diloco::to_hex(one.payload.hash)},
                      {"payload_bytes", one.payload.size_bytes}};
  if (one.proof) json["proof"] = diloco::to_hex(*one.proof);
  if (one.whole) json["whole"] = diloco::to_hex(*one.whole);
  return json;
}

}  // namespace

nlohmann::json round_json(const diloco::CommitRecord& record, const ReportedNorms& norms) {
  nlohmann::json contributions = nlohmann::json::array(), standings = nlohmann::json::array();
  const auto reported = norms.find(record.round);
  for (const diloco::Participant& one : record.participants) {
    nlohmann::json json = contribution_json(one);
    if (reported != norms.end() && reported->second.contains(one.region)) {
      json["reported_delta_norm"] = reported->second.at(one.region).delta;
      json["reported_error_norm"] = reported->second.at(one.region).error;
    }
    contributions.push_back(std::move(json));
  }
  for (const diloco::Standing& one : record.standings)
    standings.push_back(
        {{"region", one.region}, {"liveness", one.liveness}, {"next_k", one.next_k}});
  nlohmann::json json{{"kind", "round"},
                      {"round", record.round},
                      {"state", diloco::to_hex(record.state)},
                      {"contributions", contributions},
                      {"standings", standings},
                      {"skip_momentum", record.skip_momentum},
                      {"expired_before", record.expired_before},
                      {"next_k", record.next_k},
                      {"next_grace_s", record.next_grace_ms / 1000.0}};
  if (record.next_sharded) json["next_sharded"] = true;
  for (const inter::BlobId& sum : record.sums)
    json["sums"].push_back(
        {{"payload", diloco::to_hex(sum.hash)}, {"payload_bytes", sum.size_bytes}});
  if (record.momentum) json["momentum"] = *record.momentum;
  if (record.k_decision) json["k_decision"] = to_string(*record.k_decision);
  if (record.revision > 0 || !record.withdrawn.empty()) json["revision"] = record.revision;
  for (const diloco::Participant& one : record.withdrawn)
    json["withdrawn"].push_back({{"region", one.region},
                                 {"round", one.round},
                                 {"part", one.part},
                                 {"payload", diloco::to_hex(one.payload.hash)}});
  for (const diloco::EgressCost& one : record.egress) json["egress_cost"][one.region] = one.cost;
  return json;
}

void check_round(const RegionLedger& ledger, std::optional<diloco::Round> round) {
  const std::size_t rounds = read_records(ledger).standing.size();
  if (!round || *round < rounds) return;
  throw ConfigError(
      fmt::format("--round {}: the ledger has {}", *round,
                  rounds == 0 ? "no rounds" : fmt::format("rounds 0 to {}", rounds - 1)));
}

bool is_asked(const diloco::LedgerEntry& entry, std::optional<diloco::Round> round) {
  const diloco::CommitRecord* record = record_in(entry);
  return !round || (record != nullptr && record->round == *round);
}

}  // namespace

ReportedNorms reported_norms(const std::vector<RegionLedger>& ledgers) {
  ReportedNorms norms;
  for (const RegionLedger& ledger : ledgers) {
    for (const Event& event : read_events(ledger.directory / "events.jsonl")) {
      if (event.event != "round") continue;
      const auto json = nlohmann::json::parse(event.json, nullptr, false);
      const auto delta = json.find("delta_norm"), error = json.find("error_norm");
      if (delta == json.end() || error == json.end() || !delta->is_number() || !error->is_number())
        continue;
      norms[event.round][event.region] = {delta->get<double>(), error->get<double>()};
    }
  }
  return norms;
}

std::vector<std::string> ledger_lines(const RegionLedger& ledger, const ReportedNorms& norms,
                                      std::optional<diloco::Round> round) {
  check_round(ledger, round);
  std::vector<std::string> lines;
  MembershipStory members;
  for (std::size_t i = 0; i < ledger.entries.size(); ++i) {
    const diloco::LedgerEntry& entry = ledger.entries[i];
    if (!is_asked(entry, round)) continue;
    const std::string place = fmt::format("entry {}, term {}, ", i + 1, entry.entry.term);
    const diloco::CommitRecord* record = record_in(entry);
    if (record == nullptr) {
      lines.push_back(place + members.tell(entry.entry));
      continue;
    }
    lines.push_back(place + round_line(*record));
    if (!round) continue;
    for (const std::string& line : round_details(*record, norms)) lines.push_back(line);
  }
  return lines;
}

nlohmann::json ledger_json(const RegionLedger& ledger, const ReportedNorms& norms,
                           std::optional<diloco::Round> round) {
  check_round(ledger, round);
  nlohmann::json entries = nlohmann::json::array();
  MembershipStory members;
  for (std::size_t i = 0; i < ledger.entries.size(); ++i) {
    const diloco::LedgerEntry& entry = ledger.entries[i];
    if (!is_asked(entry, round)) continue;
    const diloco::CommitRecord* record = record_in(entry);
    nlohmann::json json =
        record != nullptr ? round_json(*record, norms) : members.json(entry.entry);
    json["entry"] = i + 1;
    json["term"] = entry.entry.term;
    json["hash"] = diloco::to_hex(entry.hash);
    entries.push_back(std::move(json));
  }
  return {{"run_id", ledger.run_id}, {"region", ledger.name}, {"entries", entries}};
}

}  // namespace causeway::run
