#include <algorithm>
#include <cmath>
#include <sstream>

#include "apps/run/page/format.h"
#include "apps/run/simulate/report.h"

namespace causeway::run {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as they need to be; the first is left-aligned, the others right-aligned.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    out += "  ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      out += i == 0 ? row[i] + space : "  " + space + row[i];
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

// A command may be long, or contain anything.
std::string trainer_line(const Summary& s) {
  if (!s.by_program()) return "";
  std::string command = s.facts.worker.substr(0, 200);
  std::ranges::replace_if(
      command, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return "trained by " + command + "\n";
}

std::string heading(const Summary& s) {
  return s.name + ": " + format_count(s.parameters) + " parameters, " +
         std::to_string(s.regions.size()) + " regions, " + std::to_string(s.worker_processes()) +
         " workers, " + std::to_string(s.rounds) + " rounds of K = " + s.k_text() +
         " steps\ncodec " + s.codec + ", outer " + s.outer +
         (s.variant == "synchronous" ? "" : ", " + s.variant) + ", WAN " + s.facts.wan + ", seed " +
         std::to_string(s.seed) + "\n" + trainer_line(s);
}

std::string percent(double ratio, int decimals) {
  return format_fixed(100 * ratio, decimals) + " %";
}

Row loss_row(const Summary& s) {
  if (s.by_program())
    return {"training loss", format_fixed(s.mean_loss(), 4), "not run", "mean of the last steps"};
  if (s.timed_steps)
    return {"validation loss", "not trained", "", "timed steps: nothing was computed"};
  Row row = {"validation loss", s.val_loss_text(), "skipped", "nats per token"};
  if (!s.baseline_val_loss) return row;
  row[2] = format_fixed(*s.baseline_val_loss, 4);
  if (!s.val_loss_ratio()) return row;
  const double change = *s.val_loss_ratio() - 1;
  row[3] = percent(std::abs(change), 2) + (change > 0 ? " higher" : " lower");
  return row;
}

std::string comparison(const Summary& s) {
  std::vector<Row> rows = {{"", "this run", "synchronised every step", ""}};
  rows.push_back(loss_row(s));
  rows.push_back({"bytes over the WAN", format_bytes(double(s.wan_bytes)),
                  format_bytes(double(s.wan_bytes_if_synced_every_step)),
                  s.wan_ratio() > 0
                      ? format_count(static_cast<std::uint64_t>(s.wan_ratio())) + " times fewer"
                      : ""});
  if (s.egress_cost)
    rows.push_back({"egress cost", format_money(*s.egress_cost), "", "links.prices"});
  const std::string none = s.by_program() ? "not run" : "skipped";
  rows.push_back({"wall time", format_duration(s.facts.wall_s),
                  s.facts.baseline_wall_s > 0 ? format_duration(s.facts.baseline_wall_s) : none,
                  s.facts.baseline_wall_s > 0 ? "the latter without a WAN" : ""});
  return table(rows);
}

std::string region_table(const Summary& s) {
  std::vector<Row> rows = {{"region", "steps", "tokens", "sent", "received", "compute", "wait",
                            "utilisation", "parameters"}};
  for (const RegionSummary& region : s.regions) {
    const diloco::Progress& end = region.result.progress;
    rows.push_back({region.name, format_count(end.step()), format_count(end.tokens()),
                    format_bytes(double(region.wan_tx_bytes)),
                    format_bytes(double(region.wan_rx_bytes)), format_duration(end.compute_s()),
                    format_duration(end.wait_s()), percent(region.result.utilisation(), 1),
                    region.result.params_digest.substr(0, 12)});
  }
  return table(rows);
}

std::string verdicts(const Summary& s) {
  std::string out =
      s.identical ? "  All regions hold the same bits, after every one of the " +
                        std::to_string(s.rounds) + " rounds and at the end.\n"
                  : "  THE REGIONS DIFFER: see state in events.jsonl and params_digest above.\n";
  if (s.facts.wan_verdict && !s.facts.wan_verdict->valid())
    out += "  The simulated WAN did not keep up. " + to_string(*s.facts.wan_verdict) + ".\n";
  if (s.by_program()) {
    out +=
        "  A program of your own trained. It has no synchronous run to be compared with, and only "
        "it "
        "can\n  measure a validation loss.\n";
  }
  if (s.facts.restarts > 0)
    out += "  Processes restarted: " + std::to_string(s.facts.restarts) + ".\n";
  if (s.timed_steps) {
    out +=
        "  Steps were timed waits, not training (train.timed_step_ms): only utilisation means "
        "something.\n";
  } else {
    out += "  Utilisation is not that of separate machines: all regions shared " +
           std::to_string(s.facts.cores) +
           " cores here, and one that waits\n  lends them to the others." +
           (s.by_program() ? "" : " train.timed_step_ms measures it.") + "\n";
  }
  return out;
}

// Indented, printable, and broken at spaces into lines that fit a terminal.
std::string quoted(const std::string& sample) {
  constexpr std::size_t kColumns = 76;
  std::istringstream stream(sample);
  std::string out;
  for (std::string line; std::getline(stream, line);) {
    std::replace_if(
        line.begin(), line.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
    while (line.size() > kColumns) {
      const std::size_t space = line.rfind(' ', kColumns);
      const std::size_t end = space == std::string::npos || space == 0 ? kColumns : space;
      out += "  | " + line.substr(0, end) + "\n";
      line.erase(0, end + (end == space ? 1 : 0));
    }
    out += "  | " + line + "\n";
  }
  return out;
}

}  // namespace

std::string report_text(const Summary& summary, const std::string& sample,
                        const std::filesystem::path& out) {
  std::string text = "\n" + heading(summary) + "\n" + comparison(summary) + "\n" +
                     region_table(summary) + "\n" + verdicts(summary);
  if (!sample.empty()) text += "\nText from the trained model:\n" + quoted(sample);
  text += "\nFiles in " + out.string() +
          ": report.html, summary.json, events.jsonl, tensorboard/, " +
          (summary.by_program() ? "" : "checkpoints/final/, ") + "ledger/\n";
  return text;
}

}  // namespace causeway::run
