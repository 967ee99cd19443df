// The directory of one run: what lies where, and when it may be used.
//
//   config.toml        resolved           certificates/        the run's own PKI
//   regions/NAME/      one per region     baseline/NAME/       the synchronous run it is compared
//   with progress.jsonl     observations       restarts.jsonl       what had to be started again
//   simulation.json    time spent so far, kept for --resume
//   at the end: events.jsonl summary.json report.html tensorboard/ checkpoints/ ledger
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/run/config/config.h"
#include "diloco/files/file_io.h"

namespace causeway::run {

class RunDirectory {
 public:
  // Creates it, or takes it up again. Throws ConfigError if it holds a run and `resume` is false,
  // if it holds none and `resume` is true, if another program has it open, or if the run there does
  // not share its settings with `config`.
  RunDirectory(std::filesystem::path path, const Config& config, bool resume);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_file() const { return path_ / "config.toml"; }
  std::filesystem::path certificates() const { return path_ / "certificates"; }
  std::filesystem::path region(const std::string& name) const { return path_ / "regions" / name; }
  std::filesystem::path baseline(const std::string& region) const {
    return path_ / "baseline" / region;
  }
  std::filesystem::path progress_file() const { return path_ / "progress.jsonl"; }
  std::filesystem::path restarts_file() const { return path_ / "restarts.jsonl"; }

  // Survives an interruption.
  struct Spent {
    double began_s = 0;  // start of the run, seconds since the epoch
    double wall_s = 0, baseline_wall_s = 0;
    std::uint32_t restarts = 0;
    std::string worker = {};  // command of the program that trains; empty: the built-in trainer
  };
  Spent read_spent() const;
  void write_spent(const Spent& spent) const;

  // Puts what the founder's region holds under its names at the top: checkpoints/final, which only
  // the built-in trainer makes, and ledger.
  void link_outputs(const std::string& founder) const;

 private:
  std::filesystem::path path_;
  std::optional<diloco::Descriptor> lock_;  // goes with the program, however it ends
};

// The same of a run whose directory is not taken up; nothing was spent if there is none.
RunDirectory::Spent read_spent(const std::filesystem::path& run_directory);

// Of a region that is started by hand: what --directory named, otherwise runs/NAME/REGION.
std::filesystem::path region_path(const Config& config, const std::string& region,
                                  const std::filesystem::path& given);

// "runs/quickstart-20250131T120000Z"
std::filesystem::path default_run_path(const std::string& name);

}  // namespace causeway::run
