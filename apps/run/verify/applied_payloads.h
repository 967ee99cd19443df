// What a round's record needs to be applied, in words, for those who read a run from outside: what
// its regions sent, or of a sharded round (docs/sharded-rounds.md) the sums of it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "diloco/log/record.h"
#include "diloco/maths/digest.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::run {

struct NamedPayload {
  inter::BlobId blob;
  std::string name;  // "the payload of east in round 7", "the sum of shard 3 of round 7"
};
// In the order in which a record applies them. Shards are counted from 0.
std::vector<NamedPayload> applied_payloads(const diloco::CommitRecord& record);

// The hash by which `record` lists a contribution of this payload: of a sharded round, that which
// names the shards that it is cut into. Throws compression::Errc::malformed for what is none.
diloco::Digest listed_hash(std::span<const std::byte> payload, const diloco::CommitRecord& record);

// Throws ConfigError if of this round the sums alone are left: what `asked` for needs each
// contribution by itself.
void require_contributions(const diloco::CommitRecord& record, const std::string& asked);

}  // namespace causeway::run
