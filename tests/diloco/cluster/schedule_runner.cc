// schedule_runner [links | spool | changing | damaged | lying | spoilt | lost | sharded |
// outrun] FIRST [COUNT | trace]: runs random schedules of the round protocol, or of one kind of
// them (schedule.h), from seed FIRST on and stops at the first that fails, shrunk. With one seed it
// says what happened.
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <spdlog/spdlog.h>

#include "tests/diloco/cluster/schedule.h"

using namespace causeway::diloco::testing;

namespace {

int replay(Schedule schedule, bool trace) {
  if (!run(schedule).failure.empty()) schedule = shrink(schedule);
  std::cout << "seed " << schedule.options.seed << ", " << schedule.options.regions.size()
            << " regions" << (schedule.options.witness.empty() ? "" : ", one of them a witness")
            << ", staleness at most " << schedule.options.staleness_max << "\n";
  for (const Fault& fault : schedule.faults) std::cout << "  " << describe(fault) << "\n";
  if (trace) schedule.options.trace = &std::cout;
  const Result result = run(schedule);
  std::cout << result.rounds << " rounds, " << result.late << " late contributions, "
            << result.restores << " snapshots taken over, " << result.terms << " terms, "
            << result.withdrawals << " withdrawals, " << result.chunks << " chunks\n"
            << (result.failure.empty() ? "every property held" : result.failure) << "\n";
  return result.failure.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  static const std::map<std::string, Schedule (*)(std::uint64_t)> kKinds{
      {"links", make_link_schedule},      {"changing", make_changing_schedule},
      {"damaged", make_damaged_schedule}, {"lying", make_lying_schedule},
      {"spoilt", make_spoilt_schedule},   {"lost", make_lost_schedule},
      {"spool", make_spool_schedule},     {"sharded", make_sharded_schedule},
      {"outrun", make_outrun_schedule}};
  auto make = make_schedule;
  const auto kind = words.empty() ? kKinds.end() : kKinds.find(words.front());
  if (kind != kKinds.end()) {
    make = kind->second;
    words.erase(words.begin());
  }
  if (words.empty()) {
    std::cerr << "usage: schedule_runner [links | spool | changing | damaged | lying | spoilt | "
                 "lost | sharded | outrun] FIRST [COUNT | trace]\n";
    return 2;
  }
  spdlog::set_level(spdlog::level::off);
  const std::uint64_t first = std::stoull(words[0]);
  const bool trace = words.size() > 1 && words[1] == "trace";
  if (words.size() < 2 || trace) return replay(make(first), trace);
  const std::uint64_t count = std::stoull(words[1]);
  std::uint64_t late = 0, restores = 0, refusals = 0, chunks = 0, withdrawals = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Result result = run(make(seed));
    if (!result.failure.empty()) return replay(make(seed), false);
    late += result.late;
    restores += result.restores;
    refusals += result.refusals;
    withdrawals += result.withdrawals;
    chunks += result.chunks;
  }
  std::cout << count << " schedules, " << late << " late contributions, " << restores
            << " snapshots taken over, " << refusals << " refused, " << withdrawals
            << " withdrawals, " << chunks << " chunks: every property held\n";
}
