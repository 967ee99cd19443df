// What a program trains, as it names it: for the regions of a run to compare, before numbers of one
// are added to another's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diloco/maths/digest.h"

namespace causeway::diloco {

struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  // SHA-256 of what the run begins with, fp32 in order of the last index; none past that.
  std::optional<Digest> values = {};
  bool operator==(const NamedTensor&) const = default;
};
using NamedTensors = std::vector<NamedTensor>;

// A clause on the first name or shape that differs from those of `region`; empty: none does.
std::string other_tensor(const NamedTensors& here, const NamedTensors& there,
                         const std::string& region);
// The name of the first tensor that begins with other values. Both have the same names and shapes.
std::optional<std::string> other_values(const NamedTensors& here, const NamedTensors& there);

// As bytes: a Tensors of protocol.proto. The latter throws Errc::malformed.
std::string serialize(const NamedTensors& tensors);
NamedTensors parse_tensors(const std::string& bytes);

}  // namespace causeway::diloco
