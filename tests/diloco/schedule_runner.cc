// schedule_runner FIRST [COUNT]: runs random schedules of the round protocol from seed FIRST on and
// stops at the first that fails, shrunk. With one seed it says what happened.
#include <cstdint>
#include <iostream>
#include <string>

#include "tests/diloco/schedule.h"

using namespace causeway::diloco::testing;

namespace {

int replay(std::uint64_t seed, bool trace) {
  Schedule schedule = make_schedule(seed);
  if (!run(schedule).failure.empty()) schedule = shrink(schedule);
  std::cout << "seed " << seed << ", " << schedule.options.regions.size() << " regions"
            << (schedule.options.witness.empty() ? "" : ", one of them a witness")
            << ", staleness at most " << schedule.options.staleness_max << "\n";
  for (const Fault& fault : schedule.faults) std::cout << "  " << describe(fault) << "\n";
  if (trace) schedule.options.trace = &std::cout;
  const Result result = run(schedule);
  std::cout << result.rounds << " rounds, " << result.late << " late contributions, "
            << result.restores << " snapshots taken over, " << result.terms << " terms\n"
            << (result.failure.empty() ? "every property held" : result.failure) << "\n";
  return result.failure.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: schedule_runner FIRST [COUNT | trace]\n";
    return 2;
  }
  const std::uint64_t first = std::stoull(argv[1]);
  const bool trace = argc > 2 && std::string(argv[2]) == "trace";
  if (argc < 3 || trace) return replay(first, trace);
  const std::uint64_t count = std::stoull(argv[2]);
  std::size_t late = 0, restores = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Result result = run(make_schedule(seed));
    if (!result.failure.empty()) return replay(seed, false);
    late += result.late;
    restores += result.restores;
  }
  std::cout << count << " schedules, " << late << " late contributions, " << restores
            << " snapshots taken over: every property held\n";
}
