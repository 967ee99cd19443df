// Whether this region's directory is an older copy: a disk that was restored from a snapshot, say.
// What the region promised since is not in it, and it votes nevertheless. Nobody can know that at
// its start; the records that it then gets say what it contributed meanwhile.
#pragma once

#include <optional>

#include "diloco/region/region.h"

namespace causeway::diloco {

class OldCopy {
 public:
  // As the region starts.
  explicit OldCopy(Region& region);

  // Warns once. Before the record settles the contributions that it lists.
  void check(const CommitRecord& record);

 private:
  Region& region_;
  // With so many rounds, under the name that votes. None: it has nothing to forget.
  std::optional<Round> began_with_;
};

}  // namespace causeway::diloco
