#include "apps/run/watch/run_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <map>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"
#include "apps/run/page/format.h"
#include "apps/run/region/parse_object.h"
#include "apps/run/region/region_files.h"
#include "diloco/files/file_io.h"
#include "inter/base/text.h"
#include "inter/mesh/observer.h"

namespace causeway::run {
namespace {

std::string status_file(const std::filesystem::path& directory) {
  std::ifstream file(directory / "status.json");
  if (!file) {
    throw ConfigError(directory.string() +
                      ": no status.json; name the directory of a region that was started");
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// When the coordinator wrote last.
std::string time_of(const std::filesystem::path& file) {
  struct stat written {};
  std::tm utc{};
  std::array<char, 32> text{};
  if (::stat(file.c_str(), &written) != 0 || ::gmtime_r(&written.st_mtime, &utc) == nullptr)
    return "an unknown time";
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// Whose key is in the directory, if there is one alone.
std::string only_name(const std::filesystem::path& certificates) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(certificates, missing)) {
    if (entry.path().extension() == ".key" && entry.path().stem() != "ca")
      names.push_back(entry.path().stem());
  }
  if (names.size() == 1) return names.front();
  std::string known;
  for (const std::string& name : names) known += " " + name;
  throw ConfigError(
      names.empty()
          ? "--certificates " + certificates.string() +
                ": no certificate and key there; a region's or an observer's is needed "
                "(`causeway certs add-observer NAME`), and ca.crt"
          : "--as NAME is needed: --certificates " + certificates.string() + " has" + known);
}

SeenRegion seen(const std::string& where, std::string text) {
  SeenRegion region;
  region.text = std::move(text);
  const nlohmann::json status = status_of(region);
  if (!status.is_object()) {
    throw ConfigError(where +
                      ": the answer is not a status; name a running coordinator of this program "
                      "version, or its directory");
  }
  region.name = status.value("region", where);
  region.finished = status.value("finished", false);
  region.runs = true;
  if (get<bool>(status, "falls_behind"))
    region.rounds_behind =
        get<std::uint64_t>(status, "round") - get<std::uint64_t>(status, "version");
  return region;
}

// What they show may be some seconds apart.
constexpr double kApartS = 10;

}  // namespace

void compare_rounds(std::vector<SeenRegion>& regions) {
  struct Newest {
    std::uint64_t round = 0;
    double applied_unix_s = 0;  // by whoever has that round
  };
  std::map<std::string, Newest> runs;
  for (const SeenRegion& region : regions) {
    const nlohmann::json status = status_of(region);
    if (!region.runs || !status.is_object()) continue;
    Newest& newest = runs[get<std::string>(status, "run_id")];
    const auto round = get<std::uint64_t>(status, "round");
    if (round > newest.round) newest = {round, get<double>(status, "applied_unix_s")};
  }
  for (SeenRegion& region : regions) {
    const nlohmann::json status = status_of(region);
    const bool says = status.is_object() && status.contains("rounds_kept");
    if (!region.runs || region.finished || !says) continue;
    const Newest& newest = runs[get<std::string>(status, "run_id")];
    const auto version = get<std::uint64_t>(status, "version");
    const bool old = get<double>(status, "applied_unix_s") + kApartS < newest.applied_unix_s;
    if (old && version + get<std::uint64_t>(status, "rounds_kept") < newest.round)
      region.rounds_behind = newest.round - version;
  }
}

nlohmann::json status_of(const SeenRegion& region) {
  return nlohmann::json::parse(region.text, nullptr, false);
}

// What the file says holds only while a coordinator holds the directory.
SeenRegion look_at_directory(const std::filesystem::path& region_directory) {
  const bool runs = diloco::is_locked(region_directory / "ledger" / "lock");
  SeenRegion region = seen(region_directory.string(), status_file(region_directory));
  region.runs = runs;
  region.written_utc = time_of(region_directory / "status.json");
  return region;
}

SeenRegion look_at_address(const inter::Endpoint& address, const Observer& observer) {
  const std::string name = observer.as.empty() ? only_name(observer.certificates) : observer.as;
  return seen(inter::to_string(address),
              inter::observe({.address = address,
                              .credentials = inter::credentials_in(observer.certificates, name),
                              .deadline = observer.deadline}));
}

namespace {

using Json = nlohmann::json;
using Row = std::vector<std::string>;

std::string dash_if_zero(double value, const std::string& shown) {
  return value > 0 ? shown : "-";
}

// Below 0: not known.
double seconds_left(const Json& status) {
  if (status.contains("left_s")) return number_in(status, "left_s").value_or(-1);
  // As earlier versions wrote it.
  const Json progress = object_in(status, "progress");
  const double step = get<double>(progress, "step"), steps = get<double>(status, "steps");
  const double spent_s = get<double>(progress, "compute_s") + get<double>(progress, "wait_s");
  if (step <= 0 || spent_s <= 0 || steps <= 0) return -1;
  return spent_s / step * std::max(0.0, steps - step);
}

std::string state_of(const SeenRegion& region, const Json& status) {
  if (region.run_is_over && !region.finished) return "ended";
  if (!region.problem.empty()) return "NOT SEEN";
  if (region.finished) return "finished";
  if (!region.runs) return "STOPPED";
  if (region.falls_behind())
    return "FALLS BEHIND: " + format_count(region.rounds_behind) + " rounds";
  const std::string waiting = get<std::string>(status, "waiting");
  if (!waiting.empty()) return "waits for " + waiting;
  const std::string phase = get<std::string>(object_in(status, "progress"), "phase");
  return phase.empty() ? "no worker yet" : phase;
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
// state has done steps that it spent no time on.
double run_seconds_left(const std::vector<SeenRegion>& regions, const std::vector<Json>& all) {
  double left_s = -1;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].runs && !regions[i].falls_behind())
      left_s = std::max(left_s, seconds_left(all[i]));
  }
  return left_s;
}

Row row_of(const SeenRegion& region, const Json& status, double left_s) {
  if (!region.problem.empty())
    return {region.name, "-", "-", "-", "-", "-", "-", "-", state_of(region, status)};
  const Json progress = object_in(status, "progress");
  const double step = get<double>(progress, "step"), steps = get<double>(status, "steps");
  const double rate = get<double>(progress, "tokens_per_s"), loss = get<double>(progress, "loss");
  return {region.name,
          format_count(get<std::uint64_t>(status, "version")),
          format_steps(std::uint64_t(step), std::uint64_t(steps)),
          dash_if_zero(loss, format_fixed(loss, 4)),
          progress.contains("val_loss") && progress["val_loss"].is_number()
              ? format_fixed(progress["val_loss"].get<double>(), 4)
              : "-",
          dash_if_zero(rate, format_count(std::uint64_t(rate))),
          format_bytes(get<double>(status, "wan_tx_bytes")),
          left_s < 0 || region.finished || !region.runs ? "-" : format_duration(left_s),
          state_of(region, status)};
}

std::string totals(const std::vector<SeenRegion>& regions, const std::vector<Json>& all) {
  const double left_s = run_seconds_left(regions, all);
  double tokens = 0, rate = 0, sent = 0;
  std::uint64_t version = 0;
  bool finished = !regions.empty();
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const Json progress = object_in(all[i], "progress");
    tokens += get<double>(progress, "tokens");
    sent += get<double>(all[i], "wan_tx_bytes");
    version = std::max(version, get<std::uint64_t>(all[i], "version"));
    finished = finished && (regions[i].finished || regions[i].run_is_over);
    if (regions[i].runs) rate += get<double>(progress, "tokens_per_s");
  }
  return "all: " + format_count(version) + " rounds, " + format_count(std::uint64_t(tokens)) +
         " tokens, " + format_count(std::uint64_t(rate)) + " tokens/s, " + format_bytes(sent) +
         " sent" +
         (finished     ? ", finished"
          : left_s < 0 ? ""
                       : ", about " + format_duration(left_s) + " left") +
         "\n";
}

std::string egress_line(const std::vector<Json>& all) {
  std::vector<EgressStatus> known;
  for (const Json& status : all) {
    if (const auto egress = egress_of(status)) known.push_back(*egress);
  }
  const auto run = sum(known);
  return run ? "egress: " + to_string(*run) + "\n" : "";
}

// Whether it is up; if not, whether the peer is reached all the same.
std::string state_of_link(const Json& link) {
  const std::string via = get<std::string>(link, "via");
  return get<bool>(link, "up") ? "up" : via.empty() ? "DOWN" : "by way of " + via;
}

std::string links_table(const std::vector<SeenRegion>& regions, const std::vector<Json>& all) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (!regions[i].runs) continue;
    const Json links = object_in(all[i], "links");
    for (const auto& [peer, link] : links.items()) {
      if (!link.is_object()) continue;
      const double rate = get<double>(link, "rate_mbit_s");
      rows.push_back({regions[i].name + " > " + peer, state_of_link(link),
                      format_fixed(get<double>(link, "round_trip_ms"), 1) + " ms",
                      dash_if_zero(rate, format_fixed(rate, 1) + " Mbit/s"),
                      format_fixed(100 * get<double>(link, "loss"), 2) + " %",
                      format_bytes(get<double>(link, "tx_bytes"))});
    }
  }
  if (rows.empty()) return "";
  rows.insert(rows.begin(), {"link", "", "round trip", "rate", "sent again", "sent"});
  return "\n" + columns(rows);
}

std::string problems(const std::vector<SeenRegion>& regions, const std::vector<Json>& all) {
  std::string lines;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const SeenRegion& region = regions[i];
    if (region.run_is_over) continue;
    if (!region.problem.empty()) {
      lines += "! " + region.name + ": " + region.problem + "\n";
    } else if (region.falls_behind()) {
      lines += "! " + region.name + ": it has applied " + format_count(region.rounds_behind) +
               " rounds less than there are, and what it makes no longer counts; coordinator.log "
               "in its directory says what it waits for\n";
    } else if (!region.is_well()) {
      lines += "! " + region.name + ": no coordinator runs; it wrote last at " +
               region.written_utc + ". Start it again to go on\n";
    }
    if (const std::string error = get<std::string>(all[i], "last_error"); !error.empty())
      lines += "! " + region.name + ": last error: " + error + "\n";
    if (all[i].is_object() && all[i].value("degraded", false))
      lines += "! " + region.name + ": trains without some of its workers\n";
  }
  return lines.empty() ? "" : "\n" + lines;
}

}  // namespace

std::string run_table(const std::vector<SeenRegion>& regions) {
  std::vector<Json> all;
  for (const SeenRegion& region : regions) {
    const Json status = status_of(region);
    all.push_back(status.is_object() ? status : Json::object());
  }
  std::vector<Row> rows = {
      {"region", "rounds", "step", "loss", "validation", "tokens/s", "sent", "left", "state"}};
  const double left_s = run_seconds_left(regions, all);
  for (std::size_t i = 0; i < regions.size(); ++i)
    rows.push_back(row_of(regions[i], all[i], left_s));
  return inter::printable(columns(rows) + totals(regions, all) + egress_line(all) +
                          links_table(regions, all) + problems(regions, all));
}

std::string region_page(const SeenRegion& region) {
  const Json status = status_of(region);
  std::ostringstream out;
  const std::string leader = get<std::string>(status, "leader"),
                    waiting = get<std::string>(status, "waiting");
  out << get<std::string>(status, "region") << " of run " << get<std::string>(status, "run_id")
      << "\n"
      << (region.finished ? "  finished"
                          : fmt::format("  round {} is open", status.value("round", 0)))
      << ", version " << status.value("version", 0) << " applied\n";
  if (!region.finished) {
    out << "  leader: " << (leader.empty() ? "none known" : leader) << ", term "
        << status.value("term", 0) << "\n"
        << "  waiting for: " << (waiting.empty() ? "nothing" : waiting) << "\n";
  }
  if (const Json progress = object_in(status, "progress"); !progress.empty()) {
    out << (region.runs ? "  worker: " : "  worker, when it was last heard: ")
        << get<std::string>(progress, "phase") << ", step " << progress.value("step", 0)
        << ", loss " << get<double>(progress, "loss") << "\n";
  }
  const Json links = region.runs ? object_in(status, "links") : Json::object();
  for (const auto& [peer, link] : links.items()) {
    out << "  " << peer << ": " << state_of_link(link) << ", round trip " << std::fixed
        << std::setprecision(1) << link.value("round_trip_ms", 0.0) << " ms, "
        << link.value("tx_bytes", 0ULL) << " bytes sent, " << link.value("rx_bytes", 0ULL)
        << " received\n";
  }
  if (region.falls_behind())
    out << "  falls behind: it has applied " << region.rounds_behind
        << " rounds less than there are, and what it makes no longer counts\n";
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
                    {"rounds_behind", region.rounds_behind},
                    {"written_utc", region.written_utc},
                    {"problem", region.problem},
                    {"status", status.is_object() ? status : nlohmann::ordered_json(nullptr)}});
  }
  return nlohmann::ordered_json{{"regions", list}}.dump(
             2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace causeway::run
