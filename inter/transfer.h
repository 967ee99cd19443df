// Both ends of blob transfers over one link, without any I/O: frames in, frames out.
// docs/wire-format.md tells the exchange.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "inter/blob.h"
#include "inter/frame_body.h"

namespace causeway::inter {

// What goes to one peer, in order. Outlives the link: after a reconnection it first asks what had
// arrived, and goes on there.
class BlobSender {
 public:
  BlobSender(const Spool& spool, std::string peer) : spool_(spool), peer_(std::move(peer)) {}

  void push(const BlobId& id);  // no effect if it is queued already
  void on_fetch(const BlobFetch& fetch);
  void on_progress(const BlobProgress& progress);
  void on_decline(const BlobDecline& decline);
  void on_reconnected();

  // The next frame for the data connection; nothing while there is nothing to send or an answer is
  // awaited.
  std::optional<Bytes> next();

  bool busy() const { return !queue_.empty() || !unconfirmed_.empty(); }
  std::string describe() const;  // what is under way, for a log; empty if nothing is

 private:
  struct Item {
    BlobId id;
    std::optional<std::uint64_t> next_offset;  // nothing: the peer must say first what it has
    bool offered = false;
    std::uint64_t confirmed_bytes = 0;
  };
  std::optional<Bytes> next_offer();
  std::optional<Bytes> next_chunk();
  Bytes abandon_front();
  Item* find(const BlobId& id);
  void erase(const BlobId& id);

  const Spool& spool_;
  std::string peer_;
  std::deque<Item> queue_;  // the front one is being streamed
  std::deque<Item>
      unconfirmed_;  // streamed to the end; the peer has not said that it has all of it
};

// What arrives from one peer over one link, appended to the spool. Several of these may feed one
// blob: each appends only what continues the spool's prefix, so whoever is ahead wins.
class BlobReceiver {
 public:
  using Reply = std::variant<BlobProgress, BlobFetch, BlobDecline>;
  struct Result {
    std::optional<Reply> reply;
    bool completed = false;  // this chunk was the last one, and the hash is right
  };

  BlobReceiver(Spool& spool, std::uint64_t blob_bytes_max, std::string peer)
      : spool_(spool), blob_bytes_max_(blob_bytes_max), peer_(std::move(peer)) {}

  // The request that makes the peer stream what is missing; nothing if all is here or the peer is
  // at it.
  std::optional<BlobFetch> want(const BlobId& id);

  Reply on_offer(const BlobId& id);
  Result on_chunk(const BlobChunk& chunk);
  void on_abandon(const BlobId& id);

  bool busy() const { return !incoming_.empty(); }
  std::string describe() const;

 private:
  Result append(const BlobId& id, std::uint64_t offset, std::span<const std::byte> bytes);
  Result on_append_failed(const BlobId& id, const std::system_error& error);
  BlobDecline decline(const BlobId& id, const std::string& reason);

  Spool& spool_;
  std::uint64_t blob_bytes_max_;
  std::string peer_;
  std::set<BlobId> incoming_;         // begun over this link, not complete
  std::set<BlobId> gaps_;             // of those: the missing bytes were asked for
  std::set<BlobId> declined_;         // chunks still under way are dropped in silence
  std::map<BlobId, int> mismatches_;  // how often the hash was wrong
};

}  // namespace causeway::inter
