// Validation loss of one run, all regions in this process: what it learns, without processes and
// links.
//
//     bench_trial HOW CONFIG [KEY=VALUE]...
//
// HOW: rounds, as the configuration says; late, returned or dropped, where half of the
// contributions miss their round and that becomes of them (apps/run/learning/trial.h); lockstep,
// its regions synchronised every step. Prints one JSON object; bench/learning.py runs many.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iterator>
#include <string_view>

#include "apps/run/config/config.h"
#include "apps/run/learning/trial.h"

namespace causeway {
namespace {

using run::Missing;

struct Way {
  std::string_view name;
  Missing missing;
};
constexpr Way kRounds[] = {{"rounds", Missing::never},
                           {"late", Missing::late},
                           {"returned", Missing::returned},
                           {"dropped", Missing::dropped}};

run::TrialResult train(std::string_view how, const run::Config& config) {
  if (how == "lockstep") return run::train_in_lockstep(config);
  return run::train_in_rounds(config, std::ranges::find(kRounds, how, &Way::name)->missing);
}

bool known(std::string_view how) {
  return how == "lockstep" || std::ranges::find(kRounds, how, &Way::name) != std::end(kRounds);
}

void print(std::string_view how, const run::Config& config) {
  const auto begin = std::chrono::steady_clock::now();
  const run::TrialResult result = train(how, config);
  const double spent_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf(
      "{\"loss\": %.6f, \"missed\": %.3f, \"payload_bytes\": %llu, \"rounds\": %llu, \"digest\": "
      "\"%s\", \"wall_s\": %.1f}\n",
      result.loss, result.missed, static_cast<unsigned long long>(result.payload_bytes),
      static_cast<unsigned long long>(result.rounds), result.digest.c_str(), spent_s);
}

}  // namespace
}  // namespace causeway

int main(int count, char** words) {
  if (count < 3 || !causeway::known(words[1])) {
    std::fprintf(
        stderr, "usage: bench_trial rounds|late|returned|dropped|lockstep CONFIG [KEY=VALUE]...\n");
    return 2;
  }
  try {
    causeway::print(words[1], causeway::run::load_config(words[2], {words + 3, words + count}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
