// What it costs in loss when half of the contributions miss their round: dropped, as in DiLoCo's
// published ablation, and what becomes of them here instead.
//
//     bench_missed_rounds CONFIG [KEY=VALUE]...
//
// Prints the validation loss for: all in time; half of them (from a seed) one round late, listed
// with the weight of late ones; half of them back in the residual; half of them dropped. Inner
// steps, codec, weights and outer rounds are the run's own code, all regions in this process: what
// misses a round is decided here and not by a network.
#include <cstdio>
#include <exception>

#include "apps/run/config/config.h"
#include "apps/run/learning/trial.h"

namespace causeway {
namespace {

using run::Missing;

void compare(const run::Config& config) {
  struct Row {
    Missing missing;
    const char* name;
  };
  constexpr Row kRows[] = {{Missing::never, "all in time"},
                           {Missing::late, "listed a round later"},
                           {Missing::returned, "back in the residual"},
                           {Missing::dropped, "dropped"}};
  double in_time = 0;
  for (const auto& [missing, name] : kRows) {
    const run::TrialResult result = run::train_in_rounds(config, missing);
    if (missing == Missing::never) in_time = result.loss;
    std::printf("%-22s %4.1f %% missed: %.4f (%+.2f %%)\n", name, 100 * result.missed, result.loss,
                100 * (result.loss / in_time - 1));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace causeway

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: bench_missed_rounds CONFIG [KEY=VALUE]...\n");
    return 2;
  }
  try {
    causeway::compare(causeway::run::load_config(words[1], {words + 2, words + count}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
