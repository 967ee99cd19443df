#include "apps/run/simulate/simulation.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "apps/run/config/prices.h"
#include "apps/run/config/suitable_outer.h"
#include "apps/run/page/format.h"
#include "apps/run/region/own_process.h"
#include "apps/run/region/signal_watch.h"
#include "apps/run/simulate/memory.h"
#include "apps/run/simulate/process_action.h"
#include "apps/run/simulate/region_processes.h"
#include "apps/run/simulate/report.h"
#include "apps/run/simulate/summary.h"
#include "apps/run/simulate/supervisor.h"
#include "inter/base/file.h"
#include "inter/base/text.h"
#include "intra/base/usable_cores.h"
#include "intra/data/data.h"
#include "intra/data/sampler.h"
#include "intra/step/evaluation.h"
#include "intra/worker/worker_result.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::run {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kDiffer = 4;  // exit code: a person must look
constexpr std::chrono::milliseconds kRedraw{250};
constexpr std::chrono::seconds kPageInterval{10};

std::filesystem::path this_program() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

std::string quoted_for_shell(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What a process that ended by itself gave as its reason, if it gave one.
std::string reason_given(const ExitStatus& status, const std::filesystem::path& log) {
  const std::string words = status.signal == 0 ? last_words(log) : "";
  return words.empty() ? "" : " (" + words + ")";
}

// The user's program that trains; empty: none does.
std::string worker_of(const SimulateOptions& options) {
  if (!options.resume) return options.worker;
  const std::filesystem::path stored = options.out / "config.toml";
  const bool of_program = !exists(stored) || !load_config(stored, {}).built_in_trainer();
  if (!options.worker.empty() && !of_program) {
    throw ConfigError("--worker: the run in " + options.out.string() +
                      " was not begun with a program of yours; leave it out, or begin another run "
                      "with another --out");
  }
  return options.worker.empty() ? read_spent(options.out).worker : options.worker;
}

// Throws what a worker would only find once everything else runs.
void check_data(const Config& config) {
  // Of a program, nothing is known; timed steps read none.
  if (!config.built_in_trainer() || config.train.timed_step_ms > 0) return;
  const intra::Dataset dataset(config.data);
  intra::check_validation(dataset, config.model.context);
  if (!config.data.validation_files.empty()) {
    const intra::Dataset common(intra::common_validation(config.data));
    intra::check_validation(common, config.model.context);
  }
  for (std::size_t i = 0; i < config.regions.size(); ++i) {
    const intra::Sampler sampler(dataset, config.model.context, config.train.seed, i,
                                 config.regions.size());
  }
}

// One thread, one io_context: children, timers, signals and the display. The WAN alone has a
// thread of its own.
class Simulation {
 public:
  explicit Simulation(const SimulateOptions& options)
      : options_(options),
        worker_(worker_of(options)),
        config_(load_config(options.config, options.overrides,
                            worker_.empty() ? Trainer::built_in : Trainer::program)),
        out_(options.out.empty() ? default_run_path(config_.name) : options.out),
        wan_(make_wan()),  // before anything is written: the scenario may be wrong
        directory_(open_directory()),
        spent_(directory_.read_spent()),
        launch_{config_, directory_, options.program.empty() ? this_program() : options.program,
                intra::usable_cores().count, worker_},
        monitor_(config_, directory_),
        signals_(context_.get_executor()),
        redraw_(context_) {
    spent_.worker = worker_;
  }

  int run() {
    std::printf("Run directory: %s\n", directory_.path().c_str());
    if (const std::string concern = outer_concern(config_); !concern.empty())
      std::printf("WARNING: %s\n", concern.c_str());
    std::fflush(stdout);
    watch_signals();
    int exit_code = 1;
    std::exception_ptr failure;
    asio::co_spawn(context_, go(), [&](std::exception_ptr error, int result) {
      failure = error;
      exit_code = result;
      signals_.cancel();
    });
    context_.run();
    if (failure) std::rethrow_exception(failure);
    return exit_code;
  }

 private:
  std::unique_ptr<Wan> make_wan() {
    const std::vector<std::string> names = names_of(config_);
    if (options_.wan == WanEngine::none) return make_direct_wan(names);
    const auto on_process = [this](const wan_sim::ProcessAction& action) {
      asio::post(context_, [this, action] { act(action); });
    };
    if (options_.wan == WanEngine::packet) return make_packet_wan(config_.wan, names, on_process);
    const auto port_of = [regions = out_ / "regions"](const std::string& region) {
      return read_listening_port(regions / region);
    };
    return make_relay_wan(config_.wan, names, port_of, on_process);
  }

  RunDirectory open_directory() const {
    prices_of(config_);  // throws what each coordinator would
    check_memory(config_, options_.baseline && worker_.empty(), intra::host_memory());
    if (!options_.resume) check_data(config_);
    return {out_, config_, options_.resume};
  }

  void act(const wan_sim::ProcessAction& action) {
    if (!supervisor_) return;
    monitor_.note("the scenario says: " + to_string(action));
    carry_out(action, *supervisor_);
  }

  asio::awaitable<int> go() {
    const int exit_code = co_await train_and_report();
    const std::map<std::string, std::system_error>& refused = monitor_.files().list();
    for (const auto& [file, error] : refused)
      std::fprintf(stderr, "causeway: %s is missing or not whole: %s\n", file.c_str(),
                   error.what());
    if (exit_code != 0 || refused.empty()) co_return exit_code;
    std::fprintf(stderr,
                 "causeway: make room or repair the disk, then write what is missing with:\n  %s\n",
                 resume_command().c_str());
    throw std::system_error(gravest(refused),
                            "the run is over, but not all of its files are written");
  }

  // Room is what a launcher can wait for.
  static std::error_code gravest(const std::map<std::string, std::system_error>& refused) {
    const auto lacks_room = [](const auto& one) { return inter::is_out_of_room(one.second); };
    const auto found = std::ranges::find_if(refused, lacks_room);
    return (found == refused.end() ? refused.begin() : found)->second.code();
  }

  asio::awaitable<int> train_and_report() {
    if (!training_is_complete()) {
      const SupervisionOutcome outcome = co_await train();
      if (outcome.exit_code != 0) co_return explain(outcome);
    }
    verdict_ = wan_->stop_and_judge();
    SupervisionOutcome baseline;
    if (options_.baseline && worker_.empty() &&
        !intra::read_result(directory_.baseline(config_.regions.front().name))) {
      baseline = co_await run_baseline();
      if (baseline.exit_code == 130) co_return explain(baseline);
    }
    const bool same = co_await report();
    if (baseline.exit_code != 0) co_return explain(baseline);
    co_return same ? 0 : kDiffer;
  }

  bool training_is_complete() const {
    return std::all_of(config_.regions.begin(), config_.regions.end(), [&](const RegionConfig& r) {
      return intra::read_result(directory_.region(r.name)).has_value();
    });
  }

  asio::awaitable<SupervisionOutcome> train() {
    Supervisor::Options options;
    options.on_restart = [this](const Death& death) {
      ++spent_.restarts;
      const auto& [process, status, pause, log] = death;
      new_restarts_.push_back(
          {process.label, process.progress(), to_string(status), spent_.wall_s, ""});
      monitor_.note(process.label + ": " + to_string(status) + reason_given(status, log) +
                    "; starting it again in " + format_duration(double(pause.count()) / 1000));
    };
    const double before_s = spent_.wall_s;
    co_return co_await supervise(training_processes(launch_, *wan_, monitor_), options,
                                 [this, before_s](double here_s) {
                                   spent_.wall_s = before_s + here_s;
                                   show(monitor_.observe_training(spent_.wall_s, spent_.restarts));
                                 });
  }

  void keep() {
    monitor_.files().attempt("simulation.json", [this] { directory_.write_spent(spent_); });
    if (new_restarts_.empty()) return;
    monitor_.files().attempt("restarts.jsonl", [this] {
      append_restarts(directory_.restarts_file(), new_restarts_);
      new_restarts_.clear();
    });
  }

  // On the terminal, and now and then in report.html.
  void show(const View& view) {
    display_.update(view);
    if (Clock::now() < next_page_) return;
    next_page_ = Clock::now() + kPageInterval;
    write_page(report_html_so_far(view, read_samples(directory_.progress_file())));
  }

  void write_page(const std::string& html) {
    monitor_.files().attempt("report.html",
                             [&] { write_text_file(directory_.path() / "report.html", html); });
  }

  asio::awaitable<SupervisionOutcome> run_baseline() {
    Supervisor::Options options;
    options.restart = false;  // the others of its group cannot go on without it
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::string generation = fmt::format("baseline-{}-{}", now.count(), ::getpid());
    co_return co_await supervise(
        baseline_processes(launch_, generation), options, [this](double here_s) {
          spent_.baseline_wall_s = here_s;
          show(monitor_.observe_baseline(here_s, baseline_is_one_process(config_, launch_.cores)));
        });
  }

  // Runs the processes to their end, calling `show` with the seconds since their start several
  // times a second.
  template <typename Show>
  asio::awaitable<SupervisionOutcome> supervise(std::vector<Supervised> processes,
                                                Supervisor::Options options, Show show) {
    supervisor_.emplace(context_.get_executor(), std::move(processes), std::move(options));
    const Clock::time_point began = Clock::now();
    const auto seconds = [began] {
      return std::chrono::duration<double>(Clock::now() - began).count();
    };
    std::optional<SupervisionOutcome> outcome;
    std::exception_ptr failure;  // the first, of the supervisor or of a look
    asio::co_spawn(context_, supervisor_->run(),
                   [&](std::exception_ptr error, SupervisionOutcome result) {
                     if (!failure) failure = error;
                     outcome = std::move(result);
                     redraw_.cancel();
                   });
    const auto look = [&] {
      if (failure) return;
      try {
        show(seconds());
        keep();
      } catch (...) {
        failure = std::current_exception();
        supervisor_->interrupt();
      }
    };
    // Until the supervisor is done, whatever a look throws: what it completes with is in this
    // frame, and Ctrl-C reaches the processes through it.
    while (!outcome) {
      look();
      redraw_.expires_after(kRedraw);
      asio::error_code ignored;
      co_await redraw_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    look();
    display_.finish();
    supervisor_.reset();
    if (failure) std::rethrow_exception(failure);
    co_return *outcome;
  }

  void watch_signals() {
    signals_.wait([this](SignalWatch::Wish wish) {
      if (!supervisor_) std::_Exit(130);  // nothing to save
      if (wish == SignalWatch::Wish::end_at_once) return supervisor_->kill();
      monitor_.note(
          "interrupted: the state is being saved; a second Ctrl-C ends everything at once");
      supervisor_->interrupt();
    });
  }

  const char* engine_name() const { return options_.wan == WanEngine::packet ? "packet" : "none"; }

  // The resolved configuration has every --set in it.
  std::string resume_command() const {
    return "causeway simulate " + directory_.config_file().string() + " --out " +
           directory_.path().string() + " --resume" +
           (worker_.empty() ? "" : " --worker " + quoted_for_shell(worker_)) +
           (options_.baseline ? "" : " --no-baseline") +
           (options_.wan == WanEngine::relay ? "" : " --wan " + std::string(engine_name()));
  }

  static std::string what_is_saved(const SupervisionOutcome& outcome) {
    if (outcome.problem.empty()) return "the state is saved";
    return outcome.problem + ", so the steps since an earlier state on disk will be taken again";
  }

  // Where standard output has no reader any more, such as a tee that the same Ctrl-C ended, another
  // place may have one.
  static void tell(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) std::fputs(text.c_str(), stderr);
  }

  // Says how the run ended, if not well, and returns its exit code.
  int explain(const SupervisionOutcome& outcome) {
    if (outcome.exit_code == 130) {
      tell(fmt::format("Interrupted; {}. To go on:\n  {}\n", what_is_saved(outcome),
                       resume_command()));
      return 130;
    }
    const std::vector<std::string> end = last_lines(outcome.log, 15);
    std::fprintf(stderr, "causeway: %s. %s %s%s\n", outcome.problem.c_str(),
                 end.empty() ? "It left nothing in" : "The end of", outcome.log.c_str(),
                 end.empty() ? "." : ":");
    for (const std::string& line : end)
      std::fprintf(stderr, "  %s\n", inter::printable(line).c_str());
    const int code = outcome.exit_code;
    const bool may_go_on = code == 1 || code == 3 || code == kNoRoom || outcome.mendable;
    if (may_go_on) {
      std::fprintf(stderr,
                   "causeway: the saved state is kept. Remove the cause, then go on with:\n  %s\n",
                   resume_command().c_str());
    }
    return outcome.exit_code;
  }

  // False: the regions hold other parameters at the end.
  asio::awaitable<bool> report() {
    RefusedFiles& files = monitor_.files();
    files.attempt("checkpoints/final or ledger",
                  [this] { directory_.link_outputs(config_.sync.founder); });
    files.attempt("events.jsonl", [this] { merge_events(config_, directory_.path()); });
    SimulationFacts facts;
    facts.wall_s = spent_.wall_s;
    facts.baseline_wall_s = spent_.baseline_wall_s;
    facts.restarts = spent_.restarts;
    facts.cores = launch_.cores;
    facts.wan = options_.wan == WanEngine::none ? "none" : config_.wan.string();
    facts.wan_verdict = verdict_;
    facts.worker = worker_;
    const Summary summary = summarize(config_, directory_.path(), facts);
    const std::vector<Sample> samples = read_samples(directory_.progress_file());
    const std::string text =
        co_await sample_text(context_.get_executor(), launch_, options_.sample_tokens);
    files.attempt("summary.json",
                  [&] { write_text_file(directory_.path() / "summary.json", to_json(summary)); });
    write_page(report_html(summary, samples, text));
    std::fputs(report_text(summary, text, directory_.path()).c_str(), stdout);
    std::fflush(stdout);
    co_return summary.same_parameters;
  }

  SimulateOptions options_;
  std::string worker_;  // command of the user's program; empty: the built-in trainer
  Config config_;
  std::filesystem::path out_;
  asio::io_context context_{1};  // told by the WAN's thread as well
  std::unique_ptr<Wan> wan_;
  RunDirectory directory_;
  RunDirectory::Spent spent_;
  std::vector<Restart> new_restarts_;  // not in restarts.jsonl yet
  Launch launch_;
  Monitor monitor_;
  Display display_;
  SignalWatch signals_;
  asio::steady_timer redraw_;
  std::optional<Supervisor> supervisor_;  // while processes run
  std::optional<wan_sim::Verdict> verdict_;
  Clock::time_point next_page_{};
};

}  // namespace

int simulate(const SimulateOptions& options) {
  outlive_readers();  // tee ends by the same Ctrl-C
  return Simulation(options).run();
}

}  // namespace causeway::run
