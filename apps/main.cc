// `causeway`: parses the command line, runs one subcommand, and turns every failure into a message
// that says what to do and an exit code.
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <spdlog/spdlog.h>
#include <asio/error.hpp>

#include "apps/commands.h"
#include "apps/describe/command.h"
#include "apps/printable_output.h"
#include "apps/run/config/config.h"
#include "apps/run/config/config_schema.h"
#include "apps/run/config/unexpanded_home.h"
#include "apps/run/region/own_process.h"
#include "apps/run/region/owner_advice.h"
#include "apps/run/region/start_needs.h"
#include "apps/run/watch/begin_log.h"
#include "diloco/files/error.h"
#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/base/text.h"
#include "intra/base/error.h"
#include "wan-sim/base/error.h"

namespace {

constexpr int kNoRoom = 5;
constexpr int kTryAgain = EX_TEMPFAIL;  // 75

// Of what somebody gave: addresses, names and certificates.
bool is_usage(const std::error_code& code) {
  using causeway::inter::Errc;
  constexpr std::array kUsage{Errc::already_exists,  Errc::no_ca,
                              Errc::bad_name,        Errc::bad_address,
                              Errc::cannot_listen,   Errc::unreachable_peer,
                              Errc::bad_credentials, Errc::no_congestion_control};
  return std::ranges::any_of(kUsage, [&](Errc one) { return code == make_error_code(one); });
}

int exit_code_of(const std::system_error& error) {
  const std::error_code code = error.code();
  if (causeway::inter::is_out_of_room(error)) return kNoRoom;
  if (code == make_error_code(causeway::intra::Errc::interrupted)) return 130;
  if (code == make_error_code(causeway::diloco::Errc::coordinator_lost) ||
      code == make_error_code(causeway::diloco::Errc::left_out)) {
    return 3;
  }
  if (dynamic_cast<const causeway::inter::LinkError*>(&error) != nullptr) return 3;
  if (causeway::run::is_transient(code) ||
      code == make_error_code(causeway::intra::Errc::data_changed)) {
    return kTryAgain;
  }
  if (code == make_error_code(causeway::diloco::Errc::lineage) ||
      code == make_error_code(causeway::diloco::Errc::divergence) ||
      code == make_error_code(causeway::inter::Errc::other_version) ||
      code == make_error_code(causeway::intra::Errc::bad_checkpoint)) {
    return 4;
  }
  if (code == make_error_code(causeway::diloco::Errc::config_mismatch) ||
      code == make_error_code(causeway::intra::Errc::bad_data) ||
      code == make_error_code(causeway::intra::Errc::bad_model) ||
      code == make_error_code(causeway::intra::Errc::no_device) ||
      code == make_error_code(causeway::wan_sim::Errc::bad_scenario) || is_usage(code)) {
    return 2;
  }
  return 1;
}

// Messages of these codes are whole sentences, to which the category's words would add nothing.
std::string text_of(const std::system_error& error) {
  using causeway::intra::Errc;
  const std::array whole{make_error_code(Errc::bad_data),
                         make_error_code(Errc::data_changed),
                         make_error_code(Errc::bad_checkpoint),
                         make_error_code(Errc::bad_model),
                         make_error_code(Errc::bad_settings),
                         make_error_code(Errc::interrupted),
                         make_error_code(causeway::diloco::Errc::lineage),
                         make_error_code(causeway::diloco::Errc::config_mismatch),
                         make_error_code(causeway::diloco::Errc::left_out),
                         make_error_code(causeway::inter::Errc::bad_address),
                         make_error_code(causeway::inter::Errc::bad_credentials),
                         make_error_code(causeway::inter::Errc::cannot_listen),
                         make_error_code(causeway::wan_sim::Errc::bad_scenario)};
  const bool is_whole = std::ranges::find(whole, error.code()) != whole.end();
  return is_whole ? causeway::intra::message_of(error) : error.what();
}

// By the words of std::thread and of Asio, which know no more than the number.
bool lacks_threads(const std::system_error& error) {
  const std::string_view what(error.what());
  return error.code().value() == EAGAIN &&
         (what == error.code().message() || what.starts_with("thread: "));
}
constexpr const char* kNoThread =
    "no more threads can be started: end what else needs threads or memory here, or raise ulimit "
    "-u, ulimit -v, or the limits of its control group (pids, memory); then start the same command "
    "again";

// Also by the words of Asio, which has a category of its own.
bool lacks_descriptors(const std::error_code& code) {
  const bool of_kernel = code.category() == std::generic_category() ||
                         code.category() == std::system_category() ||
                         code.category() == asio::error::get_system_category();
  return of_kernel && (code.value() == EMFILE || code.value() == ENFILE);
}
constexpr const char* kNoDescriptor =
    ". Raise ulimit -n, or end what else has many files open here; then start the same command "
    "again";

int report(const std::string& message, int exit_code) {
  std::fprintf(stderr, "causeway: %s\n", causeway::inter::printable(message).c_str());
  return exit_code;
}

// Why standard output cannot be written to. What failed may have been written long ago, and the
// stream does not keep why: one more byte, of what is spoilt already, fails in the same way.
std::error_code output_problem() {
  const int error = ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
  return {error, std::generic_category()};
}

// What was printed has arrived, or the exit code says that it has not, unless it says something
// else already.
int printed(int exit_code) {
  std::cout.flush();
  const bool arrived = std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (arrived) return exit_code;
  const std::system_error problem(output_problem());
  const int code = causeway::inter::is_out_of_room(problem) ? kNoRoom : 1;
  return report("standard output cannot be written to (" + problem.code().message() +
                    "); the output is incomplete",
                exit_code == 0 ? code : exit_code);
}

// Help, the version, or what is wrong with the command line. Before help CLI11 does not look
// whether it knows every word.
int answer(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (error.get_exit_code() == 0 && !unknown.empty()) {
    return report(
        "'" + unknown.front() + "' is not known here; --help alone lists what can be given", 2);
  }
  if (error.get_exit_code() != 0 && app.get_subcommands().empty() && !unknown.empty()) {
    const char* const what = unknown.front().starts_with('-') ? "option here" : "subcommand";
    return report("'" + unknown.front() + "' is no " + what + "; causeway --help lists them", 2);
  }
  return app.exit(error) == 0 ? printed(0) : 2;
}

int report_place(const std::filesystem::filesystem_error& error) {
  const std::string problem = error.path1().string() + ": " + error.code().message();
  // Whoever watches over the process starts it again after 1, and not after 2.
  if (causeway::inter::fails_for_now(error.code())) {
    return report(problem +
                      "; its disk or network share fails, or this host lacks memory, locks "
                      "or open files (ulimit -n). Look into the kernel's log, then start the "
                      "same command again",
                  1);
  }
  const bool is_forbidden = error.code() == std::errc::permission_denied;
  const std::string text =
      problem + "; name a place that can be read and written" +
      (is_forbidden ? causeway::run::owner_advice(error.path1(), ::geteuid()) : "");
  if (causeway::run::is_transient(error.code())) return report(text, kTryAgain);
  return report(text, causeway::inter::is_out_of_room(error) ? kNoRoom : 2);
}

// On several threads, in this process. Options may stand before the subcommand.
bool computes(int argc, char** argv) {
  constexpr std::array<std::string_view, 6> kComputing{"worker",   "tune",   "eval",
                                                       "generate", "replay", "follow"};
  return std::any_of(argv + 1, argv + argc, [&](std::string_view word) {
    return std::ranges::find(kComputing, word) != kComputing.end();
  });
}

// Of every subcommand, before or behind its name.
void add_log_options(CLI::App& app) {
  using causeway::run::LogFormat;
  app.fallthrough();
  app.add_option_function<std::string>(
         "--log-format",
         [](const std::string& name) {
           causeway::run::set_log_format(name == "json" ? LogFormat::json : LogFormat::text);
         },
         "Format of the log lines")
      ->check(CLI::IsMember({"text", "json"}))
      ->envname("CAUSEWAY_LOG_FORMAT");
  app.add_option_function<std::string>(
         "--log-level",
         [](const std::string& name) {
           causeway::run::set_log_level(spdlog::level::from_str(name));
         },
         "Lowest level that is logged")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->envname("CAUSEWAY_LOG_LEVEL");
}

// What `--set` takes. Keys of one region are left out: its name stands within them.
std::vector<std::string> names_of_settings() {
  std::vector<std::string> names;
  for (const auto& key : causeway::run::config_keys()) names.push_back(key.name);
  return names;
}

void add_subcommands(CLI::App& app, int& exit_code) {
  causeway::apps::add_init(app, exit_code);
  causeway::apps::add_simulate(app, exit_code);
  causeway::apps::add_coordinator(app, exit_code);
  causeway::apps::add_witness(app, exit_code);
  causeway::apps::add_members(app, exit_code);
  causeway::apps::add_doctor(app, exit_code);
  causeway::apps::add_status(app, exit_code);
  causeway::apps::add_verify(app, exit_code);
  causeway::apps::add_export(app, exit_code);
  causeway::apps::add_import(app, exit_code);
  causeway::apps::add_follow(app, exit_code);
  causeway::apps::add_ledger(app, exit_code);
  causeway::apps::add_replay(app, exit_code);
  causeway::apps::add_report(app, exit_code);
  causeway::apps::add_worker(app, exit_code);
  causeway::apps::add_certs(app, exit_code);
  causeway::apps::add_tune(app, exit_code);
  causeway::apps::add_plan(app, exit_code);
  causeway::apps::add_wan_sim(app, exit_code);
  causeway::apps::add_eval(app, exit_code);
  causeway::apps::add_generate(app, exit_code);
  causeway::apps::add_prepare(app, exit_code);
  causeway::apps::add_config(app, exit_code);
  causeway::apps::add_protocol_states(app, exit_code);
  causeway::describe::add_describe(app, CAUSEWAY_VERSION, names_of_settings());
}

}  // namespace

int main(int argc, char** argv) {
  causeway::run::end_at_stop_signals_as_first_process();
  causeway::run::occupy_standard_streams();
  causeway::run::keep_own_access();
  const std::string stack = causeway::run::stack_problem(causeway::run::stack_limit());
  if (!stack.empty()) return report(stack, 2);
  if (argc > 1 && computes(argc, argv)) causeway::run::prepare_openmp(argv);
  causeway::run::begin_log();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write
  causeway::run::explain_bus_errors();
  causeway::run::explain_missing_memory();
  const causeway::apps::PrintableOutput out(std::cout), err(std::cerr);

  CLI::App app("Trains one model across regions that are far apart.", "causeway");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", "causeway " CAUSEWAY_VERSION);
  add_log_options(app);
  int exit_code = 0;
  add_subcommands(app, exit_code);
  try {
    if (const auto home = causeway::run::unexpanded_home({argv, argv + argc}))
      return report(*home + ": " + causeway::run::kNoHome, 2);
    app.parse(argc, argv);
    if (app.get_subcommands().empty())
      return report("no subcommand was given; --help lists them", 2);
    return printed(exit_code);
  } catch (const CLI::ParseError& error) {
    return answer(app, error);
  } catch (const causeway::run::ConfigError& error) {
    return report(error.what(), 2);
  } catch (const std::filesystem::filesystem_error& error) {
    return report_place(error);
  } catch (const std::system_error& error) {
    if (lacks_threads(error)) return report(kNoThread, kTryAgain);
    return report(text_of(error) + (lacks_descriptors(error.code()) ? kNoDescriptor : ""),
                  exit_code_of(error));
  } catch (const std::bad_alloc&) {  // thrown by others than operator new
    causeway::run::end_without_memory();
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}
