// A link whose connections know no congestion: each uses what its turn gives it.
//
//   offer ─► queue ─► by turns, at the rate, not in a stall ─► + delay + jitter ─► arrival
//
// A lost packet comes a round trip later, and holds back what is behind it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <vector>

#include "wan-sim/link/link_rules.h"

namespace causeway::wan_sim {

class LinkModel : public LinkRules {
 public:
  LinkModel(const LinkProfile& profile, std::uint64_t key);

  std::uint64_t add_flow(std::uint64_t key) override;
  void remove_flow(std::uint64_t flow) override;
  void offer(std::uint64_t flow, std::uint64_t bytes, Time now) override;
  void end(std::uint64_t flow, StreamEnd ending, Time now) override;
  void stall(Time now, Time length) override;
  void black_hole(bool on, Time now) override;
  void change(const LinkProfile& profile, Time now) override;
  using LinkRules::advance;
  void advance(Time now, std::vector<Arrival>& arrivals) override;
  std::optional<Time> next_event() override;
  std::optional<Time> idle_since(std::uint64_t flow, Time now) override;

 private:
  struct Flow {
    std::uint64_t key = 0;
    std::uint64_t offset = 0;  // bytes that have entered the link
    std::uint64_t queued_bytes = 0;
    StreamEnd ending = StreamEnd::none;
    bool waiting = false;  // has something to send
    Time last_arrival{0};
    JitterChain jitter{};
    LossChain loss{0};
  };
  struct Segment {
    std::uint64_t bytes = 0;
    StreamEnd ending = StreamEnd::none;
    Transmission time;
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
  std::optional<std::uint64_t> next_flow();
  const std::optional<Segment>& next_segment();
  void transmit_until(Time now);
  void transmit(const Segment& segment);
  Time time_lost(std::uint64_t id, Flow& flow, std::uint64_t bytes);
  const InFlight* first_in_flight() const;
  void take_first_in_flight();
  void hold_as_needed(Time now);

  Time free_at_{0};  // when the last segment was, or will be, through
  FlowTable<Flow> flows_;
  // Whose turn is next. The flow being served comes back behind those that join meanwhile: a few
  // bytes of another flow wait for one segment, not for two.
  std::deque<std::uint64_t> turns_;
  std::optional<std::uint64_t> served_;
  std::optional<Segment> next_;  // remembered until something changes it
  bool next_known_ = false;
  // What arrives in the order in which it left, and what jitter made later than its successors.
  std::deque<InFlight> in_order_;
  std::priority_queue<InFlight, std::vector<InFlight>, std::greater<>> out_of_order_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace causeway::wan_sim
