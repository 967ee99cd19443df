// Payloads in shards (compression/codecs/payload_sum.h), for a coordinator, which does not know
// what is in a payload.
#pragma once

#include "diloco/coordinator/shard_tools.h"

namespace causeway::run {

diloco::ShardTools shard_tools();

}  // namespace causeway::run
