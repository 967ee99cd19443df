// Validation loss of one run, all regions in this process: what it learns, without processes and
// links.
//
//     bench_trial rounds|lockstep CONFIG [KEY=VALUE]...
//
// rounds: as the configuration says. lockstep: its regions synchronised every step. Prints one JSON
// object; bench/learning.py runs many.
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/learning/trial.h"

namespace causeway {
namespace {

void print(const run::Config& config, bool lockstep) {
  const auto begin = std::chrono::steady_clock::now();
  const run::TrialResult result =
      lockstep ? run::train_in_lockstep(config) : run::train_in_rounds(config);
  const double spent_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf(
      "{\"loss\": %.6f, \"payload_bytes\": %llu, \"rounds\": %llu, \"digest\": \"%s\", \"wall_s\": "
      "%.1f}\n",
      result.loss, static_cast<unsigned long long>(result.payload_bytes),
      static_cast<unsigned long long>(result.rounds), result.digest.c_str(), spent_s);
}

}  // namespace
}  // namespace causeway

int main(int count, char** words) {
  const std::string how = count < 3 ? "" : words[1];
  if (how != "rounds" && how != "lockstep") {
    std::fprintf(stderr, "usage: bench_trial rounds|lockstep CONFIG [KEY=VALUE]...\n");
    return 2;
  }
  try {
    causeway::print(causeway::run::load_config(words[2], {words + 3, words + count}),
                    how == "lockstep");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
