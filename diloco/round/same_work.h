// Whether two regions contribute exactly the same work: they train on the same data in the same
// order, and the run gains nothing by one of them. Built-in data is shared out and compared; what a
// program reads, nobody else sees.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "diloco/region/region.h"

namespace causeway::diloco {

class SameWork {
 public:
  explicit SameWork(Region& region) : region_(region) {}

  // Warns of each pair once. Before the record settles the contributions that it lists: of one that
  // was never heard of, as in a round that this region catches up with, nothing is said.
  void check(const CommitRecord& record);

 private:
  const Contribution* contribution_of(const Participant& listed) const;

  Region& region_;
  std::set<std::pair<std::string, std::string>> told_;
};

}  // namespace causeway::diloco
