// What can be done with payloads in a sharded round (diloco/region/shards.h). A coordinator does
// not know what is in them: the program hands it these. All are called in any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "diloco/log/messages.h"

namespace causeway::diloco {

struct ShardTools {
  // A payload for each shard, at most kShardsMax. Throws std::system_error for what is no payload.
  std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte> payload)> cut;

  struct Term {
    std::span<const std::byte> payload;
    float weight = 0;
  };
  struct Sum {
    std::vector<std::byte> payload;
    std::vector<std::size_t> left_out;  // terms that cannot be decoded
  };
  // Canonical. Of segments from `lowest_from` on the first term's are taken. Throws
  // std::system_error if no term can be decoded.
  std::function<Sum(std::span<const Term> terms, std::optional<std::uint32_t> lowest_from)> sum;
};

// The first segment of class lowest (diloco/maths/layout.h) of what a program trains; none: it has
// none, or is `causeway worker`.
std::optional<std::uint32_t> first_lowest(const NamedTensors& tensors);

}  // namespace causeway::diloco
