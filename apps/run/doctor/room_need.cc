#include "apps/run/doctor/room_need.h"

#include <algorithm>

#include "apps/run/config/spool_need.h"
#include "apps/run/page/format.h"
#include "diloco/maths/layout.h"
#include "intra/outer/encoding_log.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {
namespace {

// Of a parameter in a worker's state: parameters, two moments, anchor, outer momentum, residual.
constexpr std::uint64_t kStateBytes = 24;
constexpr std::uint64_t kProofBytes = 16;  // likewise, of a round that can be checked
// As measured, and rounded up.
constexpr std::uint64_t kLedgerBytes = 400;  // of a round and region
constexpr std::uint64_t kLineBytes = 1'000;  // of a round: events.jsonl and tensorboard/
constexpr std::uint64_t kTensorBytes = 200;  // of a round and tensor: compression.jsonl
constexpr std::uint64_t kEncodingLogs = 3;   // it and the two older ones

// More than any disk has, and little enough that several of it can be added.
constexpr std::uint64_t kBytesMax = 1ULL << 60;

// A run may be configured with any number of steps.
std::uint64_t bytes_of(std::uint64_t count, std::uint64_t bytes_of_each) {
  const bool too_many = bytes_of_each > 0 && count > kBytesMax / bytes_of_each;
  return too_many ? kBytesMax : count * bytes_of_each;
}

std::uint64_t quotient_up(std::uint64_t amount, std::uint64_t part) {
  return (amount + part - 1) / part;
}

// In which every fragment is exchanged once.
std::uint64_t turns_of(const Config& config) {
  const std::uint64_t k = std::max<std::uint64_t>(1, config.train.k), steps = config.train.steps;
  if (config.sync.warmup_k == 0) return quotient_up(steps, k);
  const std::uint64_t warmup = std::min<std::uint64_t>(steps, config.inner.warmup_steps);
  return quotient_up(warmup, config.sync.warmup_k) + quotient_up(steps - warmup, k);
}

void add_built_in(const Config& config, std::uint64_t turns, RoomNeed& need) {
  const std::uint64_t parameters = diloco::Layout(intra::parameter_tensors(config.model)).size();
  // One more while the oldest is replaced.
  need.states = (config.train.checkpoints_kept + 1) * kStateBytes * parameters;
  if (config.train.prove_steps > 0)
    need.states += config.train.proofs_kept * kProofBytes * parameters;
  const SpoolNeed spool = spool_need(config);
  need.spool_least = spool.bytes;
  if (need.archives) need.archive = bytes_of(turns, spool.round_bytes) + spool.snapshot_bytes;
}

std::uint64_t encoding_log_bytes(const Config& config, std::uint64_t turns) {
  const std::uint64_t most = kEncodingLogs * intra::kEncodingLogBytesMax;
  if (!config.built_in_trainer()) return most;
  return std::min(most,
                  bytes_of(turns, kTensorBytes * intra::parameter_tensors(config.model).size()));
}

std::string bytes_text(std::uint64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

}  // namespace

RoomNeed room_need(const Config& config) {
  const std::uint64_t turns = turns_of(config);
  RoomNeed need{.spool = config.sync.spool_bytes_max,
                .spool_least = config.sync.spool_bytes_max,
                .rounds = turns * config.overlap.fragments,
                .archives = config.keeps_all};
  need.records = bytes_of(need.rounds, kLedgerBytes * config.regions.size() + kLineBytes) +
                 encoding_log_bytes(config, turns);
  if (config.built_in_trainer()) add_built_in(config, turns, need);
  return need;
}

std::string to_string(const RoomNeed& need) {
  std::string text = bytes_text(need.spool) + " of spool";
  if (need.states > 0) text += ", " + bytes_text(need.states) + " of training states";
  text += ", and after " + format_count(need.rounds) + " rounds ";
  if (need.archive > 0) text += bytes_text(need.archive) + " of archive and ";
  text += bytes_text(need.records) + " of ledger, events.jsonl, tensorboard/ and compression.jsonl";
  if (need.archives && need.archive == 0)
    text +=
        "; and the archive, which grows by the payloads of all regions in every round: its size is "
        "known only when the program has told its tensors";
  return text;
}

}  // namespace causeway::run
