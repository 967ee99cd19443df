// What training data is known by, to others who should have the same.
#pragma once

#include <optional>
#include <string>

#include "diloco/maths/digest.h"

namespace causeway::diloco {

struct DataDigest {
  Digest sample{};                   // of the sizes of its files and of blocks of each
  std::optional<Digest> whole = {};  // of every byte; none: not all of them are read yet
  bool operator==(const DataDigest&) const = default;
};

// Of what one worker reads; none: of such data nothing is compared.
struct DataDigests {
  std::optional<DataDigest> of_region;  // that all ranks of the region must have in common
  std::optional<DataDigest> of_run;     // that all regions must
  bool operator==(const DataDigests&) const = default;
};

// By every byte where both have read all, otherwise by the sample: then they may differ all the
// same.
bool same_data(const DataDigest& one, const DataDigest& other);

// The beginning of its digest: "0123456789ab", "a sample: 0123456789ab".
std::string short_name(const DataDigest& data);

}  // namespace causeway::diloco
