#include "apps/run/simulate/supervisor.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

namespace causeway::run {
namespace {

std::string name_of(const Supervised& task) {
  return task.shown.empty() ? task.label : task.shown;
}

std::string what_failed(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  }
}

}  // namespace

struct Supervisor::Child {
  Child(Supervised what, std::chrono::milliseconds first_pause,
        const asio::any_io_executor& executor)
      : task(std::move(what)), policy(first_pause), pause(executor) {}
  Supervised task;
  RestartPolicy policy;
  std::unique_ptr<Process> process;  // while it runs
  std::filesystem::path log;
  asio::steady_timer pause;  // before a restart
  // Faults on purpose.
  bool held_down = false;   // may not run
  bool is_down = false;     // and does not
  bool restarting = false;  // killed for it
  int memory_kills = 0;
};

Supervisor::Supervisor(asio::any_io_executor executor, std::vector<Supervised> processes,
                       Options options)
    : executor_(executor),
      options_(std::move(options)),
      kill_timer_(executor),
      all_ended_(executor) {
  for (Supervised& task : processes) {
    children_.emplace_back(std::move(task), options_.first_pause, executor);
  }
}

Supervisor::~Supervisor() = default;

// The end of a run in words.
std::string Supervisor::how_it_ended(const Child& child, const ExitStatus& status) {
  const std::string name = name_of(child.task);
  if (!status.for_memory) return name + " ended with " + to_string(status);
  const std::string times =
      child.memory_kills > 1 ? fmt::format(", {} times", child.memory_kills) : "";
  return name + " was " + to_string(status) + times +
         ": end what else needs memory here, take fewer regions or workers or a smaller model, or "
         "use a host with more";
}

asio::awaitable<SupervisionOutcome> Supervisor::run() {
  running_ = children_.size();
  memory_kills_ = options_.memory_kills();
  all_ended_.expires_at(asio::steady_timer::time_point::max());
  for (Child& child : children_) {
    asio::co_spawn(executor_, keep_running(child), [this, &child](std::exception_ptr error) {
      if (error) {
        end_all({1, child.task.label, what_failed(error), child.log});
        kill_stragglers();
      }
      if (--running_ == 0) all_ended_.cancel();
      end_if_the_rest_is_down();
    });
  }
  asio::error_code ignored;
  if (running_ > 0)
    co_await all_ended_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  kill_timer_.cancel();
  co_return outcome_.value_or(SupervisionOutcome{});
}

asio::awaitable<void> Supervisor::keep_running(Child& child) {
  while (!outcome_) {
    const ProcessOptions command = child.task.command();
    child.log = command.log;
    child.process = std::make_unique<Process>(executor_, command);
    ExitStatus status = co_await child.process->wait();
    child.process.reset();
    status.for_memory = was_for_memory(child, status);
    const Ending ending = child.task.judge(status);
    if (ending.kind == Ending::Kind::done) co_return;
    if (outcome_) co_return note_if_not_saved(child, status);
    if (!co_await pause_before_restart(child, status, ending)) co_return;
  }
}

// The kernel tells of itself by its count alone. A shell tells of its command's signal by its code.
bool Supervisor::was_for_memory(const Child& child, const ExitStatus& status) {
  const bool killed = status.signal == SIGKILL || status.code == 128 + SIGKILL;
  const bool by_us = outcome_ || child.held_down || child.restarting;
  if (!killed || by_us || options_.memory_kills() <= memory_kills_) return false;
  ++memory_kills_;
  return true;
}

// Whoever is interrupted saves, and says so by its exit code; a program of the user's perhaps by 0.
void Supervisor::note_if_not_saved(const Child& child, const ExitStatus& status) {
  const bool saved = status.signal == 0 && (status.code == 130 || status.code == 0);
  if (saved || outcome_->exit_code != 130 || !outcome_->problem.empty()) return;
  outcome_->label = child.task.label;
  outcome_->problem =
      name_of(child.task) + " ended with " + to_string(status) + " before it had saved";
  outcome_->log = child.log;
}

// False: it is not to be started again.
asio::awaitable<bool> Supervisor::pause_before_restart(Child& child, const ExitStatus& status,
                                                       const Ending& ending) {
  const bool on_purpose = child.held_down || std::exchange(child.restarting, false);
  const bool final = ending.kind == Ending::Kind::final;
  const bool hopeless = status.for_memory && ++child.memory_kills == kMemoryKillsMax;
  std::optional<std::chrono::milliseconds> pause;
  if (on_purpose) {
    pause = std::chrono::milliseconds{0};
  } else if (!final && !hopeless && options_.restart) {
    pause = child.policy.on_death(child.task.progress());
  }
  if (!pause) {
    const bool tells = final || ending.exit_code == kNoRoom;
    end_all({tells ? ending.exit_code : 1, child.task.label,
             how_it_ended(child, status) + ending.note, child.log, ending.mendable});
    kill_stragglers();
    co_return false;
  }
  ++restarts_;
  if (options_.on_restart) options_.on_restart({child.task, status, *pause, child.log});
  asio::error_code ignored;  // cancelled when the run is to end, or by restart()
  child.pause.expires_after(*pause);
  co_await child.pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  child.is_down = child.held_down;
  end_if_the_rest_is_down();  // before the wait: what it cancels is not under way yet
  while (child.held_down && !outcome_) {
    child.pause.expires_at(asio::steady_timer::time_point::max());
    co_await child.pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  child.is_down = false;
  co_return true;
}

// They would be started into a run that is over.
void Supervisor::end_if_the_rest_is_down() {
  const auto down = static_cast<std::size_t>(
      std::count_if(children_.begin(), children_.end(), [](const Child& c) { return c.is_down; }));
  if (down == 0 || down < running_ || outcome_) return;
  const auto one = std::find_if(children_.begin(), children_.end(),
                                [](const Child& child) { return child.is_down; });
  end_all({3, one->task.label,
           one->task.label + " was killed on purpose and not restarted before the others ended",
           one->log});
}

void Supervisor::end_all(SupervisionOutcome outcome) {
  if (outcome_) return;
  outcome_ = std::move(outcome);
  signal_all(SIGINT);
  for (Child& child : children_) child.pause.cancel();
}

// Nobody waits for ever for the others to save when the run has failed.
void Supervisor::kill_stragglers() {
  kill_timer_.expires_after(options_.stop_deadline);
  kill_timer_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled) signal_all(SIGKILL);
  });
}

void Supervisor::interrupt() {
  end_all({130, "", "", {}});
}

void Supervisor::kill() {
  end_all({130, "", "", {}});
  signal_all(SIGKILL);
}

void Supervisor::signal_all(int signal) {
  send_signal([](const Supervised&) { return true; }, signal);
  // Whoever is stopped cannot end.
  send_signal([](const Supervised&) { return true; }, SIGCONT);
}

void Supervisor::send_signal(const Chosen& chosen, int signal) {
  for (Child& child : children_) {
    if (child.process && chosen(child.task)) child.process->send_signal(signal);
  }
}

void Supervisor::hold_down(const Chosen& chosen) {
  for (Child& child : children_) child.held_down = child.held_down || chosen(child.task);
  send_signal(chosen, SIGKILL);
}

void Supervisor::restart(const Chosen& chosen) {
  for (Child& child : children_) {
    if (!chosen(child.task)) continue;
    child.held_down = false;
    child.restarting = child.process != nullptr;
    child.pause.cancel();
  }
  send_signal(chosen, SIGKILL);
}

}  // namespace causeway::run
