#include "apps/run/tune_runs.h"

#include <stdexcept>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "apps/run/process.h"
#include "apps/run/region_files.h"
#include "diloco/tuner/link_fit.h"

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
                   bool shaped) const {
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
      shaped ? "relay" : "none",
      "--out",
      out.string()};
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
  throw std::runtime_error("a run for the tuning failed (" + to_string(status) + "); " +
                           options.log.string() + " ends with:" + said);
}

std::optional<double> measured_round_s(const std::filesystem::path& run,
                                       const std::vector<std::string>& regions) {
  std::vector<double> rounds_s;
  for (const std::string& region : regions) {
    double before_s = 0;
    std::size_t seen = 0;
    for (const Event& event : read_events(run / "regions" / region / "events.jsonl")) {
      if (event.event != "round") continue;
      const auto json = nlohmann::json::parse(event.json);
      const double at_s = json.value("time_unix_s", 0.0);
      if (++seen > kRoundsSkipped) rounds_s.push_back(at_s - before_s);
      before_s = at_s;
    }
  }
  if (rounds_s.size() < 2 * regions.size()) return std::nullopt;
  return diloco::tuner::quantile(rounds_s, 0.5);
}

double measured_loss(const std::filesystem::path& run) {
  const auto json = nlohmann::json::parse(read_text_file(run / "summary.json"), nullptr, false);
  if (!json.is_object() || !json.contains("val_loss") || !json["val_loss"].is_number()) {
    throw std::runtime_error((run / "summary.json").string() + ": has no val_loss");
  }
  return json["val_loss"].get<double>();
}

}  // namespace causeway::run
