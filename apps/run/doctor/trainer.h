// Whether what trains a region is here: its data, its GPU, or the packages of a PyTorch program.
#pragma once

#include <map>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/doctor/finding.h"

namespace causeway::run {

struct TrainerFigures {
  Findings findings;
  std::string data;  // fingerprint of what all regions share, hexadecimal; empty: nothing is shared
  std::map<std::string, std::string> packages;  // of Python, with their versions
};

// `python`: the interpreter that is asked where a program of the user's trains.
TrainerFigures look_at_trainer(const Config& config, const std::string& region,
                               const std::string& python);

}  // namespace causeway::run
