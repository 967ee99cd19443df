#pragma once

namespace causeway::diloco {

// What goes to whom in a round (diloco/region/shards.h).
enum class ExchangeKind {
  full,       // every payload to every region
  sharded,    // shards of payloads to their summers, and the sums to every region
  automatic,  // sharded where that is less, if the codec is dense
};

}  // namespace causeway::diloco
