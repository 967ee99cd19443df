// Flows by number: constant-time, and a number is never used twice, though its place is.
// Internal to wan-sim.
#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <vector>

namespace causeway::wan_sim {

template <typename Flow>
class FlowTable {
 public:
  std::uint64_t add(Flow flow) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(places_.size()));
      places_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    places_[place].flow = std::move(flow);
    places_[place].live = true;
    return std::uint64_t{places_[place].generation} << 32 | place;
  }
  void remove(std::uint64_t id) {
    assert(find(id));
    Place& place = places_[static_cast<std::uint32_t>(id)];
    place.flow = Flow{};
    place.live = false;
    ++place.generation;
    free_.push_back(static_cast<std::uint32_t>(id));
  }
  // Null if it was removed.
  Flow* find(std::uint64_t id) {
    Place& place = places_[static_cast<std::uint32_t>(id)];
    return place.live && place.generation == id >> 32 ? &place.flow : nullptr;
  }
  Flow& at(std::uint64_t id) {
    Flow* flow = find(id);
    assert(flow);
    return *flow;
  }
  template <typename Visit>
  void for_each(Visit visit) {
    for (std::uint32_t i = 0; i < places_.size(); ++i) {
      if (places_[i].live) visit(std::uint64_t{places_[i].generation} << 32 | i, places_[i].flow);
    }
  }

 private:
  struct Place {
    Flow flow{};
    std::uint32_t generation = 0;
    bool live = false;
  };
  std::deque<Place> places_;  // a deque: growing moves no flow
  std::vector<std::uint32_t> free_;
};

}  // namespace causeway::wan_sim
