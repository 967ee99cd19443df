// The rules of one directed link, pure: times are given, none is read, and no byte is held, only
// counts.
//
//   offer ─► queue ─► by turns, at the rate, not in a stall ─► + delay + jitter ─► arrival
//
// A flow is one direction of one connection; its bytes arrive in order and complete. Deadlines are
// absolute: however late the caller is, a segment starts when the one before it was through, so
// that lateness never adds up.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "wan-sim/scenario.h"
#include "wan-sim/stall_schedule.h"

namespace causeway::wan_sim {

enum class Ending : std::uint8_t { none, finish, reset };  // what TCP calls FIN and RST

struct Arrival {
  std::uint64_t flow = 0;
  std::uint64_t bytes = 0;
  Ending ending = Ending::none;  // after these bytes
  Time at{0};
};

class LinkModel {
 public:
  LinkModel(const LinkProfile& profile, std::uint64_t key);

  std::uint64_t add_flow(std::uint64_t key);
  void remove_flow(std::uint64_t flow);  // what it had under way never arrives

  void offer(std::uint64_t flow, std::uint64_t bytes, Time now);
  // The sender has ended; travels behind the flow's bytes. A reset may follow a finish.
  void end(std::uint64_t flow, Ending ending, Time now);

  // Nothing enters the link for `length`; what it carries already still arrives.
  void stall(Time now, Time length);
  // When a lone packet sent now is at the far end: for handshakes.
  Time traverse(Time now);

  // Everything that has arrived by now, in order of arrival. `now` never goes back.
  std::vector<Arrival> advance(Time now);
  // When to call advance next: never later than the next arrival. Nothing is under way: none.
  std::optional<Time> next_event();

  std::uint64_t segment_bytes() const { return segment_bytes_; }
  // How many bytes of one flow the link accepts before the first of them has arrived and been taken
  // away.
  std::uint64_t window_bytes() const { return window_bytes_; }

 private:
  struct Flow {
    std::uint64_t key = 0;
    std::uint64_t offset = 0;  // bytes that have entered the link
    std::uint64_t queued_bytes = 0;
    Ending ending = Ending::none;
    bool waiting = false;  // has something to send
    Time last_arrival{0};
  };
  struct Segment {
    std::uint64_t bytes = 0;
    Ending ending = Ending::none;
    Time begin{0}, end{0};  // of its transmission
  };
  struct InFlight {
    Arrival arrival;
    std::uint64_t sequence;
    bool operator>(const InFlight& other) const {
      return arrival.at != other.arrival.at ? arrival.at > other.arrival.at
                                            : sequence > other.sequence;
    }
  };

  void enqueue(std::uint64_t flow, Time now);
  std::optional<std::uint64_t> next_flow() const;
  std::optional<Segment> next_segment();
  void transmit_until(Time now);
  void transmit(const Segment& segment);

  LinkProfile profile_;
  std::uint64_t segment_bytes_;
  std::uint64_t window_bytes_;
  StallSchedule stalls_;
  Time free_at_{0};  // when the last segment was, or will be, through
  std::map<std::uint64_t, Flow> flows_;
  // Whose turn is next. The flow being served comes back behind those that join meanwhile: a few
  // bytes of another flow wait for one segment, not for two.
  std::deque<std::uint64_t> turns_;
  std::optional<std::uint64_t> served_;
  std::priority_queue<InFlight, std::vector<InFlight>, std::greater<>> in_flight_;
  std::uint64_t next_flow_ = 0;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace causeway::wan_sim
