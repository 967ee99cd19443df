#include "apps/run/probe/runs.h"

#include <algorithm>
#include <map>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "apps/run/region/process.h"
#include "apps/run/region/region_files.h"
#include "diloco/pacing/time_model.h"

namespace causeway::run {
namespace {

constexpr std::size_t kRoundsSkipped = 2;

ExitStatus run_child(const ProcessOptions& options) {
  asio::io_context context(1);
  ExitStatus status{.code = 1};
  std::exception_ptr failure;
  Process process(context.get_executor(), options);
  asio::co_spawn(
      context, [&]() -> asio::awaitable<void> { status = co_await process.wait(); },
      [&](std::exception_ptr error) { failure = error; });
  context.run();
  if (failure) std::rethrow_exception(failure);
  return status;
}

}  // namespace

void RealRuns::run(const std::string& name, const std::vector<std::string>& more_overrides,
                   How how) const {
  const std::filesystem::path out = path(name);
  if (std::filesystem::exists(out / "summary.json")) return;
  std::filesystem::remove_all(out);
  std::filesystem::create_directories(directory);
  ProcessOptions options;
  options.arguments = {
      program.empty() ? std::filesystem::read_symlink("/proc/self/exe").string() : program.string(),
      "simulate",
      config.string(),
      "--no-baseline",
      "--sample-tokens",
      "0",
      "--wan",
      how.shaped ? "relay" : "none",
      "--out",
      out.string()};
  if (!worker.empty()) {
    options.arguments.emplace_back("--worker");
    options.arguments.push_back(worker);
  }
  for (const auto* list : {&overrides, &more_overrides}) {
    for (const std::string& text : *list) {
      options.arguments.push_back("--set");
      options.arguments.push_back(text);
    }
  }
  options.log = directory / (name + ".log");
  const ExitStatus status = run_child(options);
  if (status.ok()) return;
  std::string said;
  for (const std::string& line : last_lines(options.log, 5)) said += "\n  " + line;
  throw RunError("a run for the tuning failed (" + to_string(status) + "); " +
                 options.log.string() + " ends with:" + said);
}

std::vector<RoundEvent> read_rounds(const std::filesystem::path& region_directory) {
  std::vector<RoundEvent> rounds;
  for (const Event& event : read_events(region_directory / "events.jsonl")) {
    if (event.event != "round") continue;
    const auto json = nlohmann::json::parse(event.json);
    rounds.push_back({.steps = json.value("steps", std::uint64_t{0}),
                      .step = json.value("step", std::uint64_t{0}),
                      .tokens = json.value("tokens", std::uint64_t{0}),
                      .compute_s = json.value("compute_s", 0.0),
                      .time_unix_s = json.value("time_unix_s", 0.0)});
  }
  return rounds;
}

std::uint64_t usual_steps(const std::filesystem::path& run,
                          const std::vector<std::string>& regions) {
  std::map<std::uint64_t, std::size_t> counts;
  for (const std::string& region : regions) {
    for (const RoundEvent& round : read_rounds(run / "regions" / region)) ++counts[round.steps];
  }
  const auto usual =
      std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return usual == counts.end() ? 0 : usual->first;
}

std::optional<double> measured_round_s(const std::filesystem::path& run,
                                       const std::vector<std::string>& regions) {
  const std::uint64_t steps = usual_steps(run, regions);
  std::vector<double> rounds_s;
  for (const std::string& region : regions) {
    const std::vector<RoundEvent> rounds = read_rounds(run / "regions" / region);
    for (std::size_t i = kRoundsSkipped; i < rounds.size(); ++i) {
      if (rounds[i].steps == steps)
        rounds_s.push_back(rounds[i].time_unix_s - rounds[i - 1].time_unix_s);
    }
  }
  if (rounds_s.size() < 2 * regions.size()) return std::nullopt;
  return diloco::tuner::quantile(rounds_s, 0.5);
}

}  // namespace causeway::run
