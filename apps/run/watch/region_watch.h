// What a coordinator shows of its region while the run goes on, however it was started: a line in
// its log for each round, and progress.jsonl and TensorBoard's files in the region's directory.
#pragma once

#include <filesystem>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/watch/round_line.h"
#include "apps/run/watch/tensorboard.h"

namespace causeway::run {

class RegionWatch {
 public:
  RegionWatch(const Config& config, std::string region, std::filesystem::path directory);
  // A line of events.jsonl. What cannot be written is left out: a full disk ends no region.
  void add(const std::string& event);

 private:
  void write(const AppliedRound& round);

  std::string region_;
  std::filesystem::path directory_;
  RoundLines lines_;
  Tensorboard tensorboard_;
  bool begun_ = false;  // TensorBoard's files hold what earlier processes saw
};

}  // namespace causeway::run
