// `causeway plan`: a recorded run's own timings under other links, K, codec and overlap.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "apps/run/tune/tune.h"

namespace causeway::run {

// What the regions' events.jsonl say of a run's rounds.
struct Recording {
  std::size_t rounds = 0;
  std::uint32_t k = 0;                   // that most rounds had
  std::map<std::string, double> step_s;  // median over its rounds
  double step_deviation_s = 0;           // of single steps, if they vary independently
  double round_s = 0;                    // of K steps; median over regions and rounds
};

// Throws ConfigError if there are too few rounds to learn from.
Recording read_recording(const std::filesystem::path& run, const Config& config);

// `options.config` is not used; `options.links` are the other links. Codecs are measured on this
// machine; what the recorded rounds took beyond the rehearsal of their own choice is added to every
// other one.
Tuning plan(const TuneOptions& options, const std::filesystem::path& run,
            const std::function<void(const std::string&)>& note);

}  // namespace causeway::run
