// A link whose connections are modelled TCP senders before one queue.
//
//   offer ─► sender: window, pacing ─► one queue, first in first out, full: dropped ─► at the rate,
//   not in a stall ─► + delay + jitter ─► receiver: in order ─► arrival; acknowledgement after the
//   return delay ─► sender
//
// Loss costs what it costs TCP: the bytes come again after the sender noticed, those behind wait,
// and the congestion control answers. The bytes themselves are the caller's and are never lost.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <vector>

#include "wan-sim/link/link_rules.h"
#include "wan-sim/link/tcp_sender.h"

namespace causeway::wan_sim {

class TcpLink : public LinkRules {
 public:
  TcpLink(const LinkProfile& profile, std::uint64_t key);

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
    std::optional<TcpSender> sender{};
    std::uint64_t queued_bytes = 0;      // offered, and never sent
    std::uint64_t sent_offset = 0;       // of new bytes
    std::uint64_t buffered_until = 0;    // what the sender's socket took
    std::uint64_t arrived_until = 0;     // handed over in order
    StreamEnd ending = StreamEnd::none;  // not yet sent
    StreamEnd arrived_ending = StreamEnd::none;
    JitterChain jitter{};
    LossChain loss{0};
    Time last_arrival{0};
    std::optional<Time> wake_at{};  // an event for pacing or a deadline is under way
  };
  // On its way through the queue and the wire.
  struct Piece {
    std::uint64_t flow = 0, offset = 0, bytes = 0, order = 0;
    StreamEnd ending = StreamEnd::none;
  };
  enum class Kind : std::uint8_t { arrival, acknowledgement, wake };
  struct Event {
    Time at;
    std::uint64_t sequence;
    Kind kind;
    Piece piece;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };

  void schedule(Time at, Kind kind, const Piece& piece);
  void process_until(Time now);
  void handle(const Event& event);
  void depart();
  void serve(Time now);
  void pump(std::uint64_t id, Time now);
  bool send_one(std::uint64_t id, Flow& flow, Time now);
  std::uint64_t sendable_bytes(Flow& flow) const;
  void send_new(std::uint64_t id, Flow& flow, std::uint64_t bytes, Time now);
  void send_lost(std::uint64_t id, Flow& flow, std::uint64_t offset, Time now);
  void inject(std::uint64_t id, Flow& flow, std::uint64_t offset, Time now);
  void drop(Flow& flow, std::uint64_t offset);
  std::uint64_t first_lost_byte(std::uint64_t id, Flow& flow, std::uint64_t offset,
                                std::uint64_t bytes, std::uint64_t& lost_bytes);
  void send_ending(std::uint64_t id, Flow& flow, Time now);
  void on_arrival(const Event& event);
  void hand_over(std::uint64_t id, Flow& flow, Time at);
  void wake(std::uint64_t id, Time at);
  void arm(std::uint64_t id, Flow& flow, Time now);
  void reconsider(Time now);

  FlowTable<Flow> flows_;
  std::deque<Piece> queue_;  // the first one is being sent
  std::uint64_t queued_bytes_ = 0;
  std::optional<Transmission> sending_;
  Time free_at_{0};
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_sequence_ = 0;
  std::vector<Arrival> arrived_;  // by now, and not yet asked for
};

}  // namespace causeway::wan_sim
