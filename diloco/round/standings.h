// How each region stands after the newest record: how alive it is, on which it depends what its
// work counts, and whether a round can wait for it.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "diloco/log/membership.h"
#include "diloco/log/record.h"

namespace causeway::diloco {

class Standings {
 public:
  void start_from(const CommitRecord& newest);

  // In [0, 1]. A region that the newest record does not name is new: 0. Before the first record all
  // are, and equal: 1.
  double liveness(const std::string& region) const;
  // Not named by a record that names others: it has no share of the data yet.
  bool is_new(const std::string& region) const;
  // Regions that a round could wait for: none that never came, or lost its disk and stays away.
  std::size_t living(const Membership& membership) const;

 private:
  std::map<std::string, float> liveness_;
};

}  // namespace causeway::diloco
