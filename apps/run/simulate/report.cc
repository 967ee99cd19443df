#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "apps/run/page/format.h"
#include "apps/run/page/html.h"
#include "apps/run/report/region_history.h"
#include "apps/run/report/run_report.h"
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
  return fmt::format(
      "{}: {} parameters, {} regions, {} workers, {} rounds of K = {} steps\ncodec {}, outer {}{}, "
      "WAN {}, seed {}\n{}",
      s.name, format_count(s.parameters), s.regions.size(), s.worker_processes(), s.rounds,
      s.k_text(), s.codec, s.outer, s.variant == "synchronous" ? "" : ", " + s.variant, s.facts.wan,
      s.seed, trainer_line(s));
}

std::string cores_of(const Summary& s) {
  return fmt::format("{} {}", s.facts.cores, s.facts.cores == 1 ? "core" : "cores");
}

std::string percent(double ratio, int decimals) {
  return format_fixed(100 * ratio, decimals) + " %";
}

Row loss_row(const Summary& s) {
  if (s.by_program())
    return {"training loss", format_loss(s.mean_loss(), "not known"), "not run",
            "mean of the last steps"};
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

// Rounds are taken from files that nobody seals: the ledgers say which state was agreed on.
constexpr const char* kSameAtTheEnd =
    "All regions hold the same bits at the end. Their events.jsonl lack a round, or name two "
    "states for one: causeway verify compares what they signed.";

std::string verdict_on_states(const Summary& s) {
  if (s.identical) {
    return fmt::format(
        "  All regions hold the same bits, after every one of the {} rounds and at the end.\n",
        s.rounds);
  }
  if (s.same_parameters) return fmt::format("  {}\n", kSameAtTheEnd);
  return "  THE REGIONS DIFFER: see state in events.jsonl and params_digest above.\n";
}

std::string verdicts(const Summary& s) {
  std::string out = verdict_on_states(s);
  if (s.facts.wan_verdict && !s.facts.wan_verdict->valid())
    out += "  The simulated WAN did not keep up. " + to_string(*s.facts.wan_verdict) + ".\n";
  if (s.by_program()) {
    out +=
        "  Your own program trained. There is no synchronous run to compare it with, and only the "
        "program\n  itself can measure a validation loss.\n";
  }
  if (s.facts.restarts > 0) out += fmt::format("  Processes restarted: {}.\n", s.facts.restarts);
  if (s.timed_steps) {
    out +=
        "  Steps were timed waits, not training (train.timed_step_ms): only the utilisation is of "
        "use.\n";
  } else {
    out += fmt::format(
        "  Separate machines would have another utilisation: here all regions shared {}, and those "
        "that\n  waited left them to the others.{}\n",
        cores_of(s), s.by_program() ? "" : " train.timed_step_ms measures it.");
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

namespace {

HtmlRow html_loss_row(const Summary& s) {
  if (s.by_program())
    return {"training loss, mean of the last steps", format_loss(s.mean_loss(), "not known"),
            "not run"};
  return {"validation loss, nats per token", s.timed_steps ? "not trained" : s.val_loss_text(),
          s.baseline_val_loss ? format_fixed(*s.baseline_val_loss, 4) : "skipped"};
}

std::string comparison_html(const Summary& s) {
  const std::string none = s.by_program() ? "not run" : "skipped";
  std::vector<HtmlRow> rows = {html_loss_row(s),
                               {"bytes over the WAN", format_bytes(double(s.wan_bytes)),
                                format_bytes(double(s.wan_bytes_if_synced_every_step))}};
  if (s.egress_cost) rows.push_back({"egress cost", format_money(*s.egress_cost), ""});
  for (const EgressLimit& limit : s.limits)
    rows.push_back({limit.period == "run" ? "egress budget" : "egress budget a " + limit.period,
                    format_money(limit.spent) + " of " + format_money(limit.limit), ""});
  rows.push_back({"wall time", format_duration(s.facts.wall_s),
                  s.facts.baseline_wall_s > 0 ? format_duration(s.facts.baseline_wall_s) : none});
  return html_table({"", "this run", "synchronised every step"}, rows);
}

std::string loss_of_region(const Summary& s, const RegionSummary& region) {
  if (s.timed_steps) return "not trained";
  const auto validation = region.result.val_loss();
  return validation ? format_fixed(*validation, 4) : format_loss(region.loss, "not known");
}

std::string regions(const Summary& s) {
  std::vector<HtmlRow> rows;
  for (const RegionSummary& region : s.regions) {
    rows.push_back({region.name, format_count(region.result.progress.step()),
                    format_count(region.result.progress.tokens()), loss_of_region(s, region),
                    format_bytes(double(region.wan_tx_bytes)),
                    format_bytes(double(region.wan_rx_bytes)),
                    format_fixed(100 * region.result.utilisation(), 1) + " %",
                    region.result.params_digest.substr(0, 12)});
  }
  return html_table({"region", "steps", "tokens", s.by_program() ? "loss" : "validation loss",
                     "sent", "received", "utilisation", "parameters"},
                    rows);
}

std::string memory(const diloco::Progress& worker) {
  return format_bytes(double(worker.memory_peak_bytes())) +
         (worker.device_memory_peak_bytes() > 0
              ? ", GPU " + format_bytes(double(worker.device_memory_peak_bytes()))
              : "");
}

// Where the time of a region went, and what its first worker needed. Of a program only it knows how
// much of its steps were sums, and what its devices could do.
std::string figures(const Summary& s) {
  std::vector<HtmlRow> rows;
  for (const RegionSummary& region : s.regions) {
    const diloco::Progress& end = region.result.progress;
    HtmlRow row = {region.name, format_count(static_cast<std::uint64_t>(end.tokens_per_s()))};
    if (!s.by_program())
      row.push_back(end.mfu() > 0 ? format_fixed(100 * end.mfu(), 1) + " %" : "unknown");
    row.push_back(format_duration(end.compute_s() - end.in_region_s()));
    if (!s.by_program()) row.push_back(format_duration(end.in_region_s()));
    row.insert(row.end(), {format_duration(end.outer_s()),
                           format_duration(end.wait_s() - end.outer_s()), memory(end)});
    rows.push_back(std::move(row));
  }
  if (s.by_program())
    return html_table({"region", "tokens/s", "compute", "encode and apply", "wait", "peak memory"},
                      rows);
  return html_table({"region", "tokens/s", "MFU", "compute", "sums in the region",
                     "encode and apply", "wait", "peak memory"},
                    rows);
}

}  // namespace

std::string report_html(const Summary& s, const std::vector<Sample>& samples,
                        const std::string& sample) {
  const std::string title = escape_html(s.name);
  std::string out = kHtmlHead;
  out += fmt::format(
      "<title>{}</title></head><body>\n<h1>{}</h1>\n<p>{} parameters, {} regions, {} rounds of K = "
      "{} steps; codec {}, outer {}, {}; WAN {}; seed {}; restarts {}.</p>\n",
      title, title, format_count(s.parameters), s.regions.size(), s.rounds, s.k_text(),
      escape_html(s.codec), s.outer, s.variant, escape_html(s.facts.wan), s.seed, s.facts.restarts);
  if (s.by_program()) {
    out += "<p>Trained by <code>" + escape_html(s.facts.worker) +
           "</code>. There is no synchronous run to compare such a program with.</p>\n";
  }
  out += s.identical ? "<p class=\"good\">All regions hold the same bits, after every round and at "
                       "the end.</p>\n"
         : s.same_parameters ? fmt::format("<p class=\"bad\">{}</p>\n", kSameAtTheEnd)
                             : "<p class=\"bad\">The regions differ.</p>\n";
  if (s.facts.wan_verdict && !s.facts.wan_verdict->valid())
    out += "<p class=\"bad\">The simulated WAN did not keep up. " +
           escape_html(to_string(*s.facts.wan_verdict)) + ".</p>\n";
  if (s.timed_steps) out += "<p class=\"bad\">Steps were timed waits: nothing was trained.</p>\n";
  out += comparison_html(s) + regions(s) + figures(s);
  if (!s.timed_steps) {
    out += fmt::format(
        "<p>All regions shared {}, and those that waited left them to the others: separate "
        "machines would have another utilisation.</p>\n",
        cores_of(s));
  }
  out += k_changes_html(s.k_changes);
  out += report_charts(samples, s.by_program() ? "loss" : "nats per token");
  if (!sample.empty())
    out += "<h2>Text from the trained model</h2>\n<pre>" + escape_html(sample) + "</pre>\n";
  return out + "</body></html>\n";
}

std::string report_html_so_far(const View& view, const std::vector<Sample>& samples) {
  const std::string title = escape_html(view.title);
  std::vector<HtmlRow> rows;
  for (const RegionView& region : view.regions) {
    rows.push_back({region.name, format_steps(region.step, view.steps, " of "),
                    format_loss(region.loss, ""),
                    region.val_loss ? format_fixed(*region.val_loss, 4) : "",
                    format_count(static_cast<std::uint64_t>(region.tokens_per_s)), region.state});
  }
  std::string out = kHtmlHead;
  out += fmt::format(
      "<meta http-equiv=\"refresh\" "
      "content=\"10\"><title>{}</title></head><body>\n<h1>{}</h1>\n<p>The run goes on: {}, {} so "
      "far{}; {} sent over the WAN{}; restarts {}.</p>\n",
      title, title, escape_html(view.phase), format_duration(view.elapsed_s),
      view.remaining_s < 0 ? "" : ", about " + format_duration(view.remaining_s) + " left",
      format_bytes(double(view.wan_bytes)),
      view.egress ? "; egress cost " + to_string(*view.egress) : "", view.restarts);
  out += html_table({"region", "steps", "loss", "validation loss", "tokens/s", "now"}, rows);
  for (const std::string& note : view.notes) out += "<p>" + escape_html(note) + "</p>\n";
  return out + report_charts(samples, "nats per token") + "</body></html>\n";
}

}  // namespace causeway::run
