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
    std::string_view region = {};
  };
  struct LeftOut {
    std::size_t place = 0;  // among the terms
    std::string why;        // "cannot be decoded"
  };
  struct Sum {
    std::vector<std::byte> payload;
    std::vector<LeftOut> left_out;
  };
  // The first segment of a kind (diloco/maths/layout.h) of what a program trains; none: it has
  // none, or is `causeway worker`.
  struct FirstOf {
    std::optional<std::uint32_t> averaged, lowest;
  };
  // Canonical. Of segments of class lowest the first term's are taken. Throws std::system_error if
  // no term can be decoded.
  std::function<Sum(std::span<const Term> terms, const FirstOf& first)> sum;
};

ShardTools::FirstOf first_statistics(const NamedTensors& tensors);

}  // namespace causeway::diloco
