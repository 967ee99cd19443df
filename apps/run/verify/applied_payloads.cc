#include "apps/run/verify/applied_payloads.h"

#include <fmt/format.h>

#include "apps/run/config/config.h"
#include "compression/codecs/payload_sum.h"
#include "inter/blob/spool_files.h"

namespace causeway::run {

std::vector<NamedPayload> applied_payloads(const diloco::CommitRecord& record) {
  std::vector<NamedPayload> payloads;
  for (const inter::BlobId& blob : diloco::applied_blobs(record)) {
    const std::size_t i = payloads.size();
    payloads.push_back(
        {blob, record.sums.empty()
                   ? fmt::format("the payload of {} in round {}", record.participants[i].region,
                                 record.round)
                   : fmt::format("the sum of shard {} of round {}", i, record.round)});
  }
  return payloads;
}

// Whoever cuts at the number of shards that came of it gets the same ones.
diloco::Digest listed_hash(std::span<const std::byte> payload, const diloco::CommitRecord& record) {
  if (record.sums.empty()) return diloco::tree_hash(payload);
  std::vector<inter::BlobId> shards;
  for (const auto& shard : compression::cut_payload(payload, record.sums.size()))
    shards.push_back(inter::identify(std::span(shard)));
  return diloco::whole_of(shards).hash;
}

void require_contributions(const diloco::CommitRecord& record, const std::string& asked) {
  if (record.sums.empty()) return;
  throw ConfigError(fmt::format(
      "{}: round {} was sharded: the ledger keeps the sums of its contributions alone, and no "
      "single one can be left out or weighted otherwise; for such questions train with "
      "sync.exchange = \"full\"",
      asked, record.round));
}

}  // namespace causeway::run
