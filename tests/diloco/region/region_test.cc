#include "diloco/region/region.h"

#include <cstddef>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

class LogOnDisk : public CommittedLog {
 public:
  explicit LogOnDisk(std::vector<LogEntry> entries) : entries_(std::move(entries)) {}
  std::vector<LogEntry> read(Index first, std::size_t count) const override {
    const auto begin = entries_.begin() + static_cast<std::ptrdiff_t>(first - 1);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  std::vector<LogEntry> entries_;
};

inter::BlobId payload_in(Round round) {
  inter::BlobId payload = made_by("b").payload;
  payload.hash[1] = static_cast<std::uint8_t>(round);
  payload.hash[2] = static_cast<std::uint8_t>(round >> 8U);
  return payload;
}

// It has all records before it has applied one, and the payloads of all are still of use.
TEST(Region, WhoIsFarBehindALongRunKeepsFewOfItsRecordsInMemory) {
  constexpr Round kRounds = 5000;
  PersistentState state = state_of_a({"a", "b"}, kRounds, [](Round round) {
    Contribution made = made_by("b");
    made.round = round;
    made.payload = payload_in(round);
    return std::vector<Participant>{participant_of(made, 1)};
  });
  const LogOnDisk disk(state.raft.log);
  state.raft.earlier = &disk;
  state.blobs = {payload_in(0)};
  ProtocolOptions options = options_of_a();
  options.records_in_memory = 4;
  Region region(options, std::move(state));
  region.forget_old();
  EXPECT_EQ(region.spool.released(), 0);
  const RaftLog& log = region.agreement.raft().log();
  EXPECT_LE(log.last() + 1 - log.first_in_memory(), 600);
  for (const Round round : {Round{0}, kRounds / 2, kRounds - 1})
    EXPECT_EQ(region.history.record(round).round, round);
}

}  // namespace
}  // namespace causeway::diloco
