// What a region's machine is measured to do: inner steps of the real trainer, and encoding and
// applying of the pseudo-gradient that those steps made. (`causeway tune`, step 1)
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "diloco/maths/layout.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {

// Encoding and applying of a pseudo-gradient, and how long a disk takes for what that makes.

struct CodecProbe {
  std::string codec;  // codec.matrix
  std::uint64_t payload_bytes = 0;
  double bits_per_parameter = 0;
  double encode_s = 0;
  double apply_s = 0;  // of all regions' payloads, the outer step and the digest
  double store_s = 0;  // hashing it and writing it durably
  double relative_squared_error = 0;
};

// With `codec` for matrices, and for vectors the configuration's. `state`: parameters, and the
// anchor from which steps led to them. Throws what the codec throws.
CodecProbe bench_codec(const Config& config, const diloco::Layout& layout,
                       const intra::OuterState& state, const std::string& codec,
                       const std::filesystem::path& directory);

// The median, of hashing and of writing durably: a disk has good and bad moments.
double durable_write_s(const std::filesystem::path& directory, std::span<const std::byte> content);
inline constexpr std::size_t kSmallWriteBytes = 1000;  // a record, a vote

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

// What a program of the user's, which is one region's trainer, is measured to do.

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
