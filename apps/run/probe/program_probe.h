// What a program of the user's, which is one region's trainer, is measured to do.
#pragma once

#include <filesystem>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/probe/probe.h"

namespace causeway::run {

struct ProgramToProbe {
  std::string worker;               // its command, as for `causeway simulate --worker`
  std::filesystem::path directory;  // for the run; replaced
  std::filesystem::path causeway;   // the program that simulates; empty: this one
};

// Runs it for a few steps, as one region with a coordinator of its own on this host. Throws
// RunError with what was said last if that fails.
Probe probe_program(const Config& config, const ProgramToProbe& program,
                    const ProbeOptions& options);

// Of a run that a program trained: codecs, by what its region's states differ in. `options.step_s`
// is told.
Probe probe_recorded(const Config& config, const std::filesystem::path& run,
                     const ProbeOptions& options);

}  // namespace causeway::run
