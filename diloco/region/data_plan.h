// A region's share of the training data, record by record. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "diloco/log/membership.h"
#include "diloco/log/record.h"
#include "diloco/maths/train.h"

namespace causeway::diloco {

class DataPlan {
 public:
  // `own_data`: each region has data of its own, and all of it is its share, in one pass for ever.
  explicit DataPlan(std::string region, bool own_data = false)
      : region_(std::move(region)), own_data_(own_data) {}

  // The log's first members share the data of the first rounds; later calls change nothing.
  void begin(const Membership& first);
  void add(const CommitRecord& record);

  // Of the round after the last record; none if the region has no part in it yet.
  std::optional<DataShare> share() const;
  std::uint64_t cursor() const { return cursor_; }  // after what is listed of this region

 private:
  std::string region_;
  bool own_data_;
  std::set<std::string> regions_;  // of the next round
  std::uint64_t pass_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t cursor_ = 0;
};

}  // namespace causeway::diloco
