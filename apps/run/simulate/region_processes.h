// The command lines of a simulation's processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "apps/run/config/config.h"
#include "apps/run/region/run_directory.h"
#include "apps/run/simulate/monitor.h"
#include "apps/run/simulate/supervisor.h"
#include "apps/run/simulate/wan.h"

namespace causeway::run {

struct Launch {
  const Config& config;
  const RunDirectory& directory;
  std::filesystem::path program;
  unsigned cores = 1;
  std::string worker = {};  // command of the program that trains; empty: the built-in trainer
};

std::uint32_t total_workers(const Config& config);

// Every region's coordinator and workers.
std::vector<Supervised> training_processes(const Launch& launch, const Wan& wan,
                                           const Monitor& monitor);

// Workers in lockstep on fewer cores wait for each other. Where all train on the same data, and on
// CPUs, one process then computes what they would: the same batches and the same mean.
bool baseline_is_one_process(const Config& config, unsigned cores);

// All workers as one synchronous group, named by `generation`, or one process for all.
std::vector<Supervised> baseline_processes(const Launch& launch, const std::string& generation);

// Text from the trained model, for the report.

// What `causeway generate` makes of the final checkpoint, of so many tokens. Empty if there is
// none: data without a tokenizer gives no text, and neither does a program's model.
asio::awaitable<std::string> sample_text(asio::any_io_executor executor, const Launch& launch,
                                         std::uint32_t tokens);

}  // namespace causeway::run
