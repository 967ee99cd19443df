// The subcommands of `causeway`, one file each. Each adds itself to the command line; its callback
// sets `exit_code` (README.md says what each code means, and where a command differs).
#pragma once

#include <CLI/CLI.hpp>

namespace causeway::apps {

void add_init(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_coordinator(CLI::App& app, int& exit_code);
void add_witness(CLI::App& app, int& exit_code);
void add_worker(CLI::App& app, int& exit_code);
void add_certs(CLI::App& app, int& exit_code);
void add_members(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_status(CLI::App& app, int& exit_code);
void add_replay(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_ledger(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_import(CLI::App& app, int& exit_code);
void add_follow(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_wan_sim(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_prepare(CLI::App& app, int& exit_code);
void add_config(CLI::App& app, int& exit_code);
void add_protocol_states(CLI::App& app, int& exit_code);

}  // namespace causeway::apps
