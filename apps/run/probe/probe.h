// What a region's machine is measured to do: inner steps of the real trainer, and encoding and
// applying of the pseudo-gradient that those steps made. (`causeway tune`, step 1)
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/probe/codec_probe.h"

namespace causeway::run {

struct Probe {
  std::uint64_t parameters = 0;
  double step_s = 0, step_deviation_s = 0;
  std::uint32_t steps = 0;  // measured; 0: told, not measured
  bool timed_steps = false;
  double save_s = 0;  // a small durable write
  std::vector<CodecProbe> codecs;
};

struct ProbeOptions {
  double seconds = 5;               // of inner steps, about
  double step_s = 0;                // above 0: do not measure them, the regions' machines differ
  std::vector<std::string> codecs;  // for matrices; vectors keep theirs
  std::filesystem::path directory;  // on the disk that runs use; made if it is not there
};

// The median of the samples, in seconds, and their deviation; one sample or more.
void take_step_times(const std::vector<double>& samples, Probe& out);

// The first worker of a region alone: what its group's all-reduce costs is not in it. Throws what
// the trainer and the codecs throw.
Probe probe(const Config& config, const ProbeOptions& options);

// Of an inner step, from about `seconds` of them. Several may be measured side by side.
double probe_step_s(const Config& config, double seconds);

}  // namespace causeway::run
