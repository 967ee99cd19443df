#include "diloco/region/data_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace causeway::diloco {

void DataPlan::begin(const Membership& first) {
  if (regions_.empty()) regions_ = first.regions();
}

void DataPlan::add(const CommitRecord& record) {
  for (const Participant& participant : record.participants) {
    if (participant.region == region_) cursor_ = std::max(cursor_, participant.data_cursor);
  }
  std::set<std::string> regions;
  for (const Standing& standing : record.standings) regions.insert(standing.region);
  if (regions.empty() || regions == regions_) return;
  regions_ = std::move(regions);
  if (own_data_) return;
  ++pass_;
  begin_ = cursor_;
}

std::optional<DataShare> DataPlan::share() const {
  if (regions_.empty()) return DataShare{};
  const auto self = regions_.find(region_);
  if (self == regions_.end()) return std::nullopt;
  if (own_data_) return DataShare{.index = 0, .count = 1};
  return DataShare{.index = static_cast<std::uint32_t>(std::distance(regions_.begin(), self)),
                   .count = static_cast<std::uint32_t>(regions_.size()),
                   .pass = pass_,
                   .begin = begin_};
}

}  // namespace causeway::diloco
