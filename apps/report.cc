// causeway report: a page about a run, from the directories of its regions.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/run/config/config.h"
#include "apps/run/region/output_file.h"
#include "apps/run/region/region_files.h"
#include "apps/run/replay/credit_table.h"
#include "apps/run/report/run_report.h"

namespace causeway::apps {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::vector<fs::path> directories;
  fs::path out;
};

// The region itself, or those of a run: in regions/, or in it.
std::vector<fs::path> regions_to_report(const fs::path& directory) {
  if (run::was_started(directory)) return {directory};
  if (!fs::is_directory(directory)) throw run::ConfigError(directory.string() + " is no directory");
  const std::vector<fs::path> regions = run::regions_in(directory, run::was_started);
  if (regions.empty())
    throw run::ConfigError(directory.string() +
                           " holds no region that was started: name the directory of a region "
                           "(status.json is in it), or of a run with such regions");
  return regions;
}

std::vector<run::RegionHistory> histories_of(const ReportFlags& flags) {
  std::vector<run::RegionHistory> histories;
  for (const fs::path& directory : flags.directories) {
    for (const fs::path& region : regions_to_report(directory))
      histories.push_back(run::read_region_history(region));
  }
  std::ranges::sort(histories, {}, &run::RegionHistory::name);
  for (const run::RegionHistory& history : histories) {
    const auto same = [&](const run::RegionHistory& other) { return other.name == history.name; };
    if (history.run_id != histories.front().run_id)
      throw run::ConfigError(history.name + " belongs to run " + history.run_id + ", " +
                             histories.front().name + " to run " + histories.front().run_id +
                             ": a report is of one run");
    if (std::ranges::count_if(histories, same) > 1)
      throw run::ConfigError("region " + history.name + " was named twice");
  }
  return histories;
}

fs::path file_of(const ReportFlags& flags) {
  if (!flags.out.empty()) {
    run::check_output_file("--out", flags.out);
    return flags.out;
  }
  const fs::path& first = flags.directories.front();
  if (fs::exists(first / "simulation.json"))
    throw run::ConfigError(first.string() +
                           " has the report of `causeway simulate`: name another file with --out");
  return first / "report.html";
}

// What `causeway replay --credit` left beside the regions, if it is of this run.
std::string credit_of(const ReportFlags& flags, const std::string& run_id) {
  for (const fs::path& directory : flags.directories) {
    const auto table = run::parse_credit(run::read_text_file(directory / run::kCreditFile));
    if (table && table->run_id == run_id) return run::credit_html(*table);
  }
  return "";
}

int report(const ReportFlags& flags) {
  const fs::path file = file_of(flags);
  const auto histories = histories_of(flags);
  run::write_text_file(file,
                       run::run_report(histories, credit_of(flags, histories.front().run_id)));
  std::cout << "Report: " << file.string() << "\n";
  return 0;
}

}  // namespace

void add_report(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command =
      app.add_subcommand("report", "Make a page about a run that was started by hand");
  command
      ->add_option(
          "DIRECTORY", flags->directories,
          "Directories of regions, or copies of them; or the directory of a run with regions in it")
      ->required();
  command->add_option("--out", flags->out,
                      "The file to write (default: report.html in the first directory)");
  command->footer(
      "It reads the files that coordinators and workers write. It may be made while the run goes "
      "on.");
  command->callback([flags, &exit_code] { exit_code = report(*flags); });
}

}  // namespace causeway::apps
