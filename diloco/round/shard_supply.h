// Who can supply the shards of a contribution to those that are to sum them. Pure.
#pragma once

#include <set>
#include <string>

#include "diloco/region/shards.h"

namespace causeway::diloco {

// Views what it is given.
struct ShardSupply {
  const Contribution& contribution;
  const std::set<std::string>& holders;  // of all that they are to hold of it
  const std::set<std::string>& up;       // within reach
  const Summers& summers;

  // It may be listed: each shard is with those that are to sum it, as far as they are within reach.
  // `hurried`, when nothing more arrives: one of them will do; and where a link is gone, whoever
  // made it has it for another. `strict`: with two regions where another can be reached, as one may
  // lie.
  bool is_enough(bool hurried, bool strict) const;
  // Somebody within reach has each shard.
  bool is_there() const;

 private:
  // The summers of one shard sum others too: each place among them is looked at once.
  std::uint32_t places() const;
  bool has_it(const std::string& region) const {
    return up.contains(region) && holders.contains(region);
  }
};

}  // namespace causeway::diloco
