// What goes to one peer, without any I/O: frames in, frames out. docs/wire-format.md tells the
// exchange.
//
// Any number of data connections draw chunks from here, each whenever it can write, so the fast
// ones take what the slow ones leave. A chunk counts as delivered when the peer acknowledges it;
// what was under way on a connection that is lost goes out again on the others.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "inter/base/retry.h"
#include "inter/blob/spool.h"
#include "inter/frame/frame_body.h"

namespace causeway::inter {

using ConnectionNumber = std::uint64_t;

// Outlives the session: in a new one it first asks what had arrived, and goes on there.
class BlobSender {
 public:
  BlobSender(const Spool& spool, std::string peer) : spool_(spool), peer_(std::move(peer)) {}

  // No effect if it is queued already. To a peer that declined something it is only offered, until
  // the peer asks for something: it may have no room for anything.
  void push(const BlobId& id, LogBudget::Clock::time_point now = LogBudget::Clock::now());

  // A blob that the peer was sent several times over within ten minutes it gets no more before
  // these are over: its disk loses what it stores, or it lies.
  void on_fetch(const BlobFetch& fetch, LogBudget::Clock::time_point now = LogBudget::Clock::now());
  // The bytes that this newly confirms; 0 if they were confirmed before, or are not ours.
  std::uint64_t on_ack(const BlobAck& ack);
  void on_complete(const BlobId& id);
  // Without a reason the peer only needs it no more, asked for or pushed; what follows goes on.
  void on_decline(const BlobDecline& decline);
  void on_new_session();
  void on_connection_lost(ConnectionNumber connection);

  // The next frame for the control connection: offers after a reconnection, blobs given up.
  std::optional<Bytes> next_control();
  // The next chunk for a data connection; nothing while there is nothing to send or an answer is
  // awaited. What was pushed and what the peer asked for take turns, one chunk to three: a region
  // that catches up over a slow link is pushed all that is new besides. Takes the memory of a frame
  // that is done with.
  std::optional<Bytes> next_chunk(ConnectionNumber connection, Bytes memory = {});

  bool busy() const { return !queue_.empty(); }
  bool idle() const;                 // nothing to send and nothing unacknowledged
  bool under_way() const;            // something is unacknowledged
  std::uint64_t bytes_left() const;  // not confirmed, the last chunks taken for full ones
  bool exhausted() const;            // all are under way or confirmed
  std::uint64_t in_flight(ConnectionNumber connection) const;  // chunks, not acknowledged
  // Chunks that went out on it and were acknowledged; grows while the connection lasts.
  std::uint64_t confirmed(ConnectionNumber connection) const;
  std::string describe() const;  // what is under way, for a log; empty if nothing is

 private:
  using InFlight = std::map<std::uint64_t, ConnectionNumber>;  // by chunk
  struct Item {
    BlobId id;
    bool known = true;     // what the peer holds; a push takes it to hold nothing
    bool offered = false;  // asked what it holds
    bool pushed = true;    // or only asked for
    Order order = Order::ascending;
    std::uint64_t cursor = 0;
    ChunkMap pending;  // neither under way nor confirmed
    ChunkMap confirmed;
    InFlight in_flight;
  };
  static Item new_item(const BlobId& id);
  void forget_what_was_sent_long_ago(LogBudget::Clock::time_point now);
  bool was_sent_enough(const BlobId& id, LogBudget::Clock::time_point now);
  void count_lost(const BlobId& id, std::uint64_t chunks);
  static void put_back(Item& item, std::uint64_t chunk);
  Item* find(const BlobId& id);
  void erase(const BlobId& id);
  void let_go(Item& item);
  bool confirm_leaving(const BlobAck& ack);
  std::optional<Bytes> next_chunk_of(bool pushed, ConnectionNumber connection, Bytes& memory);
  std::optional<Bytes> read_chunk(Item& item, std::uint64_t chunk, ConnectionNumber connection,
                                  Bytes memory);

  const Spool& spool_;
  std::string peer_;
  std::deque<Item> queue_;  // in the order of the pushes
  // Under way when the rest was given up. The peer takes them, so each is acknowledged, or the blob
  // is complete there or declined. Until then they fill the path as others do.
  std::map<BlobId, InFlight> leaving_;
  std::map<ConnectionNumber, std::uint64_t> confirmed_;  // chunks
  std::deque<BlobId> abandoned_;                         // the peer is still to be told
  unsigned turn_ = 0;                                    // of kTurns; in the first, what was pushed
  bool asks_first_ = false;  // the peer declined something, and nothing was welcome since
  std::map<BlobId, std::uint64_t> sent_;       // chunks of late, without those lost with a link
  LogBudget::Clock::time_point sent_until_{};  // when it is counted anew
  LogBudget log_{3};                           // lines a minute of a kind
};

}  // namespace causeway::inter
