// Chunks: every directed link is the LinkRules that the relay runs too.

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "wan-sim/base/impairments.h"
#include "wan-sim/scenario/timeline.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::wan_sim {
namespace {

// Which of many clocks is due first: a tournament tree. Ties go to the lower number.
class Earliest {
 public:
  explicit Earliest(std::size_t count)
      : leaves_(std::bit_ceil(std::max<std::size_t>(count, 1))),
        times_(leaves_, kNever),
        winners_(2 * leaves_) {
    for (std::size_t i = 0; i < leaves_; ++i) winners_[leaves_ + i] = static_cast<std::uint32_t>(i);
    for (std::size_t node = leaves_ - 1; node > 0; --node) play(node);
  }

  void set(std::uint32_t number, Time time) {
    times_[number] = time;
    for (std::size_t node = (leaves_ + number) / 2; node > 0; node /= 2) play(node);
  }
  std::uint32_t first() const { return leaves_ == 1 ? 0 : winners_[1]; }
  Time first_time() const { return times_[first()]; }

 private:
  void play(std::size_t node) {
    const std::uint32_t left = winners_[2 * node], right = winners_[2 * node + 1];
    winners_[node] = times_[right] < times_[left] ? right : left;
  }

  std::size_t leaves_;
  std::vector<Time> times_;
  std::vector<std::uint32_t> winners_;
};

// A flow's number: the link's place, and the link's own number of the flow in 48 bits.
constexpr int kPlaceShift = 48;
constexpr std::uint64_t kFlowMask = (std::uint64_t{1} << kPlaceShift) - 1;

class ChunkNetwork : public VirtualNetwork {
 public:
  explicit ChunkNetwork(const Scenario& scenario)
      : seed_(scenario.seed), earliest_(scenario.links.size()) {
    for (const auto& [pair, profile] : scenario.links) {
      places_[pair] = static_cast<std::uint32_t>(links_.size());
      links_.push_back({pair, make_link_rules(profile, key_of_link(seed_, pair)), {}});
    }
    for (const auto& [pair, place] : places_) set_return_delay(pair);
  }

  FlowId open(const std::string& from, const std::string& to, std::uint64_t number, bool forward,
              OnArrival on_arrival) override {
    const std::uint32_t place = places_.at({from, to});
    const Pair dialled = forward ? Pair{from, to} : Pair{to, from};
    const auto key = key_of_flow(key_of_connection(seed_, dialled, number), forward);
    const std::uint64_t flow = links_[place].rules->add_flow(key);
    assert(flow <= kFlowMask);
    auto& handlers = links_[place].handlers;
    const auto slot = static_cast<std::uint32_t>(flow);
    if (handlers.size() <= slot) handlers.resize(slot + 1);
    handlers[slot] = std::move(on_arrival);
    return std::uint64_t{place} << kPlaceShift | flow;
  }

  void close(FlowId id) override {
    Link& link = links_[id >> kPlaceShift];
    link.rules->remove_flow(id & kFlowMask);
    link.handlers[static_cast<std::uint32_t>(id)] = nullptr;
    reschedule(static_cast<std::uint32_t>(id >> kPlaceShift));
  }

  void offer(FlowId id, std::uint64_t bytes, Time now) override {
    const auto place = static_cast<std::uint32_t>(id >> kPlaceShift);
    links_[place].rules->offer(id & kFlowMask, bytes, now);
    if (place != advancing_) reschedule(place);
  }

  std::optional<Time> traverse(const Pair& pair, Time now, std::uint64_t key) override {
    return link(pair).rules->traverse(now, key);
  }

  Time next_event() const override { return earliest_.first_time(); }

  void advance(Time now) override {
    advancing_ = earliest_.first();
    Link& link = links_[advancing_];
    arrivals_.clear();
    link.rules->advance(now, arrivals_);
    for (const Arrival& arrival : arrivals_) {
      // A copy, because it may close its flow.
      const OnArrival handler = link.handlers[static_cast<std::uint32_t>(arrival.flow)];
      if (handler && arrival.bytes > 0) handler(arrival.bytes);
    }
    reschedule(std::exchange(advancing_, kNone));
  }

  void change(const Pair& pair, const LinkProfile& profile, Time now) override {
    link(pair).rules->change(profile, now);
    set_return_delay({pair.second, pair.first});
    reschedule(places_.at(pair));
  }
  void stall(const Pair& pair, Time length, Time now) override {
    link(pair).rules->stall(now, length);
    reschedule(places_.at(pair));
  }
  void black_hole(const Pair& pair, bool on, Time now) override {
    link(pair).rules->black_hole(on, now);
    reschedule(places_.at(pair));
  }
  const LinkProfile& profile(const Pair& pair) const override {
    return links_[places_.at(pair)].rules->profile();
  }
  void observe(std::function<void(const Pair&, const Decision&)> observer) override {
    for (Link& each : links_) {
      each.rules->observe(
          [observer, pair = each.pair](const Decision& decision) { observer(pair, decision); });
    }
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Link {
    Pair pair;
    std::unique_ptr<LinkRules> rules;
    std::deque<OnArrival> handlers;  // by the place of the flow; a deque: growing moves none
  };

  Link& link(const Pair& pair) { return links_[places_.at(pair)]; }
  void set_return_delay(const Pair& pair) {
    const auto back = places_.find({pair.second, pair.first});
    const auto place = places_.find(pair);
    if (back == places_.end() || place == places_.end()) return;
    links_[place->second].rules->set_return_delay(links_[back->second].rules->profile().delay);
  }
  void reschedule(std::uint32_t place) {
    earliest_.set(place, links_[place].rules->next_event().value_or(kNever));
  }

  std::uint64_t seed_;
  std::map<Pair, std::uint32_t> places_;
  std::vector<Link> links_;
  Earliest earliest_;
  std::uint32_t advancing_ = kNone;
  std::vector<Arrival> arrivals_;
};

}  // namespace

std::unique_ptr<VirtualNetwork> make_chunk_network(const Scenario& scenario) {
  return std::make_unique<ChunkNetwork>(scenario);
}

}  // namespace causeway::wan_sim
