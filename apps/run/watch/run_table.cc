#include "apps/run/watch/run_table.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/run/page/format.h"
#include "apps/run/watch/certificate_end.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

using Row = std::vector<std::string>;

std::string dash_if_zero(double value, const std::string& shown) {
  return value > 0 ? shown : "-";
}

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) inter::append_item(list, name);
  return list;
}

std::string state_of(const SeenRegion& region, const RegionStatus& status) {
  if (region.run_is_over && !region.finished) return "ended";
  if (region.removed) return "removed from the run";
  if (region.is_only_linked()) return "linked to " + listed(region.linked_to);
  if (!region.problem.empty()) return "NOT SEEN";
  if (region.finished) return "finished";
  if (!region.runs) return "STOPPED";
  if (region.hangs) return "HANGS: wrote last at " + region.written_utc;
  if (region.starts) return "starts: reads its files";
  if (region.missed_end()) return "MISSED THE END";
  if (region.falls_behind())
    return "FALLS BEHIND: " + format_count(region.rounds_behind) + " rounds";
  return status.state().empty() ? "no worker yet" : status.state();
}

std::string columns(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool last = i + 1 == row.size();
      line += (i == 0 ? row[i] + space : last ? row[i] : space + row[i]) + (last ? "" : "  ");
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// Of the run, which ends for all at once. A region alone may not know: one that took over another's
// state has done steps that it spent no time on. Below 0: not known.
double run_seconds_left(const std::vector<SeenRegion>& regions,
                        const std::vector<RegionStatus>& all) {
  double left_s = -1;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].works() && !regions[i].falls_behind() && !regions[i].missed_end())
      left_s = std::max(left_s, all[i].left_s.value_or(-1));
  }
  return left_s;
}

Row row_of(const SeenRegion& region, const RegionStatus& status, double left_s) {
  if (!region.problem.empty())
    return {region.name, "-", "-", "-", "-", "-", "-", "-", state_of(region, status)};
  const diloco::Progress& progress = status.progress;
  const double rate = region.works() || region.finished ? progress.tokens_per_s() : 0;
  return {region.name,
          format_count(status.version),
          format_steps(progress.step(), status.steps),
          format_loss(loss_of(progress), "-"),
          progress.has_val_loss() ? format_fixed(progress.val_loss(), 4) : "-",
          dash_if_zero(rate, format_count(std::uint64_t(rate))),
          format_bytes(double(status.wan_tx_bytes)),
          left_s < 0 || region.finished || !region.works() ? "-" : format_duration(left_s),
          state_of(region, status)};
}

std::string totals(const std::vector<SeenRegion>& regions, const std::vector<RegionStatus>& all) {
  const double left_s = run_seconds_left(regions, all);
  double tokens = 0, rate = 0, sent = 0;
  std::uint64_t version = 0;
  bool finished = !regions.empty();
  for (std::size_t i = 0; i < regions.size(); ++i) {
    tokens += double(all[i].progress.tokens());
    sent += double(all[i].wan_tx_bytes);
    version = std::max(version, all[i].version);
    finished = finished && (regions[i].finished || regions[i].run_is_over);
    if (regions[i].works()) rate += all[i].progress.tokens_per_s();
  }
  const auto seen = std::size_t(std::ranges::count(
      regions, false, [](const SeenRegion& region) { return region.text.empty(); }));
  const std::string whose =
      seen == regions.size() ? "all" : fmt::format("{} of {} regions", seen, regions.size());
  return whose + ": " + format_count(version) + " rounds, " + format_count(std::uint64_t(tokens)) +
         " tokens, " + (finished ? "" : format_count(std::uint64_t(rate)) + " tokens/s, ") +
         format_bytes(sent) + " sent" +
         (finished     ? ", finished"
          : left_s < 0 ? ""
                       : ", about " + format_duration(left_s) + " left") +
         "\n";
}

std::string egress_line(const std::vector<RegionStatus>& all) {
  const auto run = run_egress(all);
  return run ? "egress: " + to_string(*run) + "\n" : "";
}

// Whether it is up; if not, whether the peer is reached all the same.
std::string state_of_link(const LinkStatus& link) {
  if (link.up) return link.via.empty() ? "up" : "up, messages by way of " + link.via;
  return link.via.empty() ? "DOWN" : "by way of " + link.via;
}

// What was measured before it went down is none of its figures.
std::string round_trip_of(const LinkStatus& link) {
  const bool known = link.up && link.round_trip_ms > 0;
  return known ? format_fixed(link.round_trip_ms, 1) + " ms" : "-";
}

Row link_row(const std::string& name, const LinkStatus& link) {
  const bool rated = link.up && link.rate_mbit_s > 0;
  return {name,
          state_of_link(link),
          round_trip_of(link),
          rated ? format_fixed(link.rate_mbit_s, link.rate_mbit_s < 1 ? 3 : 1) + " Mbit/s" : "-",
          link.up ? format_fixed(100 * link.loss, 2) + " %" : "-",
          format_bytes(double(link.tx_bytes))};
}

std::string links_table(const std::vector<SeenRegion>& regions,
                        const std::vector<RegionStatus>& all) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (!regions[i].works()) continue;
    for (const auto& [peer, link] : all[i].links) {
      rows.push_back(link_row(regions[i].name + " > " + peer, link));
    }
  }
  if (rows.empty()) return "";
  rows.insert(rows.begin(), {"link", "", "round trip", "rate", "sent again", "sent"});
  return "\n" + columns(rows);
}

std::string certificate_problem(const SeenRegion& region, const RegionStatus& status) {
  if (!region.runs || !status.certificates_until_unix_s) return {};
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const double now_s = std::chrono::duration<double>(since_1970).count();
  const auto days = few_days_left(*status.certificates_until_unix_s, now_s);
  if (!days) return {};
  return "! " + region.name + ": a certificate that it works with " +
         (*days < 0 ? "has run out" : fmt::format("runs out in {:.0f} days", std::floor(*days))) +
         "; coordinator.log in its directory says which, and what to do\n";
}

// To be let go on if somebody stopped it.
std::string hang_problem(const SeenRegion& region, const RegionStatus& status) {
  return fmt::format(
      "its coordinator (process {0}) has shown no sign of life since {1}: somebody stopped it, it "
      "hangs, or its disk takes nothing. If it was stopped, `kill -CONT {0}` lets it go on; "
      "otherwise end it with `kill -9 {0}` and start it again",
      status.pid, region.written_utc);
}

// What is known of why: a log says of a silent worker only after a minute.
std::string why_behind(const RegionStatus& status) {
  if (!status.waiting.empty()) return "it waits for " + status.waiting;
  if (!status.worker_is_silent()) return "coordinator.log in its directory says what it waits for";
  return fmt::format(
      "{} has said nothing for {} s; its last word was \"{}\". Somebody stopped it, it hangs, or "
      "its work takes so long",
      status.speaker(), status.worker_silent_s, status.progress.phase());
}

std::string missed_end_problem(const SeenRegion& region) {
  return fmt::format(
      "the run is over, but this region lacks {} of its rounds, and no process that has them runs "
      "any more. Start {}the coordinator{} of {} again until {} has finished; any region that has "
      "finished will do",
      format_count(region.rounds_missed), region.runs ? "" : "its own coordinator and ",
      region.to_start.size() > 1 ? "s" : "", listed(region.to_start), region.name);
}

// What is the same for several is said once: a certificate may be missing here, for all of them.
std::string why_not_seen(const std::vector<SeenRegion>& regions) {
  std::vector<std::pair<std::string, std::string>> whose;  // problem, regions
  for (const SeenRegion& region : regions) {
    if (region.problem.empty() || region.is_well()) continue;
    auto same = std::ranges::find(whose, region.problem, [](auto& one) { return one.first; });
    if (same == whose.end()) same = whose.insert(same, {region.problem, ""});
    inter::append_item(same->second, region.name);
  }
  std::string lines;
  for (const auto& [problem, names] : whose) lines += "! " + names + ": " + problem + "\n";
  return lines;
}

std::string problems(const std::vector<SeenRegion>& regions, const std::vector<RegionStatus>& all) {
  std::string lines = why_not_seen(regions);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const SeenRegion& region = regions[i];
    if (region.run_is_over || !region.problem.empty()) continue;
    if (region.hangs) {
      lines += "! " + region.name + ": " + hang_problem(region, all[i]) + "\n";
    } else if (region.missed_end()) {
      lines += "! " + region.name + ": " + missed_end_problem(region) + "\n";
    } else if (region.falls_behind()) {
      lines += "! " + region.name + ": it lacks " + format_count(region.rounds_behind) +
               " rounds, so its work no longer counts; " + why_behind(all[i]) + "\n";
    } else if (!region.is_well()) {
      lines += "! " + region.name + ": no coordinator runs; it wrote last at " +
               region.written_utc + ". Start it again to go on\n";
    }
    if (!all[i].last_error.empty())
      lines += "! " + region.name + ": last error: " + all[i].last_error + "\n";
    if (all[i].degraded) lines += "! " + region.name + ": trains without some of its workers\n";
    if (region.works() && all[i].lacks_workers())
      lines += "! " + region.name + ": no worker is attached; start its workers again\n";
    lines += certificate_problem(region, all[i]);
  }
  return lines.empty() ? "" : "\n" + lines;
}

}  // namespace

std::string run_table(const std::vector<SeenRegion>& regions) {
  std::vector<RegionStatus> all;
  for (const SeenRegion& region : regions) all.push_back(status_of(region));
  std::vector<Row> rows = {
      {"region", "rounds", "step", "loss", "validation", "tokens/s", "sent", "left", "state"}};
  const double left_s = run_seconds_left(regions, all);
  for (std::size_t i = 0; i < regions.size(); ++i)
    rows.push_back(row_of(regions[i], all[i], left_s));
  return inter::printable(columns(rows) + totals(regions, all) + egress_line(all) +
                          links_table(regions, all) + problems(regions, all));
}

std::string region_page(const SeenRegion& region) {
  const RegionStatus status = status_of(region);
  std::ostringstream out;
  out << status.region << " of "
      << (status.run_id.empty() ? "a run that it does not know yet" : "run " + status.run_id)
      << "\n"
      << (region.finished ? "  finished" : fmt::format("  round {} is open", status.round))
      << ", version " << status.version << " applied\n";
  if (!region.finished) {
    out << "  leader: " << (status.leader.empty() ? "none known" : status.leader) << ", term "
        << status.term << "\n"
        << "  waiting for: " << (status.waiting.empty() ? "nothing" : status.waiting) << "\n";
  }
  const auto loss = loss_of(status.progress);
  out << (region.works() ? "  worker: " : "  worker, when it was last heard: ")
      << (status.progress.phase().empty() ? "nothing heard yet" : status.progress.phase())
      << ", step " << status.progress.step() << ", loss "
      << (loss ? fmt::format("{:g}", *loss) : "-")
      << (region.works() && status.worker_is_silent()
              ? fmt::format(", its last word {} s ago", status.worker_silent_s)
              : "")
      << "\n";
  for (const auto& [peer, link] :
       region.works() ? status.links : std::map<std::string, LinkStatus>{})
    out << "  " << peer << ": " << state_of_link(link) << ", round trip " << round_trip_of(link)
        << ", " << link.tx_bytes << " bytes sent, " << link.rx_bytes << " received\n";
  if (region.falls_behind())
    out << "  falls behind: it lacks " << region.rounds_behind
        << " rounds, so its work no longer counts\n";
  if (region.hangs) out << "  HANGS: " << hang_problem(region, status) << "\n";
  if (region.starts) out << "  starts: reads its files; the above is what was written before\n";
  if (!region.runs) {
    out << "  stopped: no coordinator runs here; the above is what it wrote last, at "
        << region.written_utc << (region.finished ? "\n" : ". Start it again to go on\n");
  }
  return out.str();
}

std::string run_json(const std::vector<SeenRegion>& regions) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SeenRegion& region : regions) {
    const auto status = nlohmann::ordered_json::parse(region.text, nullptr, false);
    list.push_back({{"region", region.name},
                    {"runs", region.runs},
                    {"starts", region.starts},
                    {"hangs", region.hangs},
                    {"rounds_behind", region.rounds_behind},
                    {"rounds_missed", region.rounds_missed},
                    {"written_utc", region.written_utc},
                    {"problem", region.problem},
                    {"linked_to", region.linked_to},
                    {"removed", region.removed},
                    {"status", status.is_object() ? status : nlohmann::ordered_json(nullptr)}});
  }
  return nlohmann::ordered_json{{"regions", list}}.dump(
             2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace causeway::run
