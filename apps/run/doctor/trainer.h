// Whether what trains a region is here: its data, its GPU, or the packages of a PyTorch program.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/doctor/card.h"
#include "apps/run/doctor/finding.h"

namespace causeway::run {

struct TrainerFigures {
  Findings findings;
  SharedData data;
  std::map<std::string, std::string> packages;  // of Python, with their versions
};

struct TrainerLook {
  std::string region;
  std::filesystem::path directory;  // the region's, where digests of data are kept
  std::string python;               // the interpreter of a program of the user's
  bool whole_data = false;          // read all of it, however much it is
};
TrainerFigures look_at_trainer(const Config& config, const TrainerLook& look);

}  // namespace causeway::run
