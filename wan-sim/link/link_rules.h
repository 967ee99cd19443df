// The rules of one directed link, pure: times are given, none is read, and no byte is held, only
// counts. Two disciplines implement them: LinkModel (no congestion control: connections take turns)
// and TcpLink (a modelled TCP sender per connection before one queue).
//
// A flow is one direction of one connection; its bytes arrive in order and complete. Deadlines are
// absolute: however late the caller is, what follows is computed from the times at which things
// were due, so that lateness never adds up.
#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "wan-sim/base/impairments.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

// Flows by number: constant-time, and a number is never used twice, though its place is.
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

enum class StreamEnd : std::uint8_t { none, finish, reset };  // what TCP calls FIN and RST

struct Arrival {
  std::uint64_t flow = 0;
  std::uint64_t bytes = 0;
  StreamEnd ending = StreamEnd::none;  // after these bytes
  Time at{0};
};

// A draw of chance that a seed must repeat: a lost packet, or the jitter at a point of the grid.
struct Decision {
  enum class Kind : std::uint8_t { loss, jitter } kind;
  std::uint64_t flow = 0;
  std::uint64_t place = 0;  // loss: the packet's number; jitter: the byte offset
  Time jitter{0};
};

class LinkRules {
 public:
  LinkRules(const LinkProfile& profile, std::uint64_t key);
  virtual ~LinkRules() = default;

  virtual std::uint64_t add_flow(std::uint64_t key) = 0;
  virtual void remove_flow(std::uint64_t flow) = 0;  // what it had under way never arrives

  virtual void offer(std::uint64_t flow, std::uint64_t bytes, Time now) = 0;
  // The sender has ended; travels behind the flow's bytes. A reset may follow a finish.
  virtual void end(std::uint64_t flow, StreamEnd ending, Time now) = 0;

  // Nothing enters the link for `length`; what it carries already still arrives.
  virtual void stall(Time now, Time length) = 0;
  // What is sent from now on vanishes, and is sent again after the end.
  virtual void black_hole(bool on, Time now) = 0;
  // Other settings from now on; not another congestion control.
  virtual void change(const LinkProfile& profile, Time now) = 0;

  // Appends everything that has arrived by now, in order of arrival. `now` never goes back.
  virtual void advance(Time now, std::vector<Arrival>& arrivals) = 0;
  // When to call advance next: never later than the next arrival. Nothing to come: none.
  virtual std::optional<Time> next_event() = 0;

  // Since when the line has stood idle and would have sent a byte of this flow; none if it would
  // not have.
  virtual std::optional<Time> idle_since(std::uint64_t flow, Time now) = 0;

  std::vector<Arrival> advance(Time now);
  // When a lone packet sent now is at the far end, for handshakes; none if it is lost. `key`
  // decides.
  std::optional<Time> traverse(Time now, std::uint64_t key);
  // How long the answer to an arrival takes to come back: what the sender's round trip adds.
  void set_return_delay(Time delay) { return_delay_ = delay; }
  void observe(std::function<void(const Decision&)> observer) { observer_ = std::move(observer); }

  const LinkProfile& profile() const { return profile_; }
  bool is_black_hole() const { return black_hole_; }
  std::uint64_t segment_bytes() const { return segment_bytes_; }
  // How many bytes of one flow the link accepts before the first of them has arrived and been taken
  // away.
  std::uint64_t window_bytes() const { return window_bytes_; }

 protected:
  void set_profile(const LinkProfile& profile, Time now);
  void set_black_hole(bool on) { black_hole_ = on; }
  void hold_or_release(bool wanted, Time now);
  // When a transmission of `bytes`, begun at `begin` at the earliest, has begun and ended.
  struct Transmission {
    Time begin{0}, end{0};
  };
  Transmission transmission(Time begin, std::uint64_t bytes);
  Time delay_of(JitterChain& chain, std::uint64_t flow, std::uint64_t flow_key,
                std::uint64_t offset);
  Time round_trip() const { return profile_.delay + return_delay_; }
  void tell_loss(std::uint64_t flow, std::uint64_t packet) const;

  LinkProfile profile_;
  StallSchedule stalls_;
  Time return_delay_{0};
  bool black_hole_ = false;
  std::uint64_t segment_bytes_ = 0;
  std::uint64_t window_bytes_ = 0;
  std::function<void(const Decision&)> observer_;

 private:
  bool held_ = false;
};

// The discipline that the profile's congestion control needs.
std::unique_ptr<LinkRules> make_link_rules(const LinkProfile& profile, std::uint64_t key);

}  // namespace causeway::wan_sim
