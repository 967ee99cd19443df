// What arrives, without any I/O: frames in, frames out.
//
//   BlobReceiver   from one peer, in one session
//   Intake         from all of them: several peers may send one blob, in parallel; what one
//                  delivers the others need not send any more
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "inter/base/limits.h"
#include "inter/base/retry.h"
#include "inter/blob/arrivals.h"
#include "inter/blob/verifier.h"
#include "inter/frame/frame_body.h"

namespace causeway::inter {

class BlobReceiver;

class Intake {
 public:
  using Completed = std::function<void(const std::string& from, const BlobId& id)>;

  // `completed` is told every blob that is complete in the spool and checked, with the peer that
  // sent its last chunk.
  // Verifier tells about `hashing`.
  Intake(const asio::any_io_executor& executor, Spool& spool, std::uint64_t blob_bytes_max,
         Completed completed, asio::any_io_executor hashing = {}, Verifier::Lost lost = {});

  void recheck(const BlobId& id) { verifier_.recheck(id); }  // that a peer is sent
  // No peer need send it until it is wanted again: where one offers it, it is not asked for.
  void forgo(const BlobId& id);
  void stop() { verifier_.stop(); }  // nothing is told any more
  const Verifier& verifier() const { return verifier_; }

 private:
  friend class BlobReceiver;
  void store(BlobReceiver& from, const BlobChunk& chunk);
  void on_verdict(const BlobId& id, const std::optional<std::system_error>& failure,
                  std::span<const Sha256Hash> chunks);
  void on_mismatch(const BlobId& id, const std::system_error& failure,
                   std::span<const Sha256Hash> chunks);
  void accuse(const std::string& peer, const std::string& of_what);
  void note_begun(const BlobId& id, const std::string& peer);
  std::set<std::string> peers() const;  // that there is a link with
  std::size_t other_sources(const BlobId& id, const std::string& peer) const;
  void log_decline(const std::string& what, const BlobId& id, const std::string& reason);

  Spool& spool_;
  std::uint64_t blob_bytes_max_;
  Completed completed_;
  std::set<BlobReceiver*> receivers_;
  std::set<BlobId> forgone_;  // nobody is to send it
  // By peer: what it began here of its own accord, the newest last.
  std::map<std::string, std::deque<BlobId>> unasked_;
  Arrivals arrivals_;
  std::size_t arrivals_max_ = kRememberedBlobsMax;  // before those are forgotten that are over
  LogBudget log_{3};                                // lines a minute of a kind
  Verifier verifier_;
};

class BlobReceiver {
 public:
  using Answer = std::function<void(Bytes frame)>;  // for the control connection

  BlobReceiver(std::shared_ptr<Intake> intake, std::string peer, Answer answer);
  BlobReceiver(const BlobReceiver&) = delete;
  BlobReceiver& operator=(const BlobReceiver&) = delete;
  ~BlobReceiver();

  // Asks the peer for what is missing; not if all is here, or the peer is at it. One that was asked
  // already is asked again after some more calls, which come every ten seconds.
  void want(const BlobId& id);
  // The peer need not send (any more of) it, until it is wanted again. What is under way is taken.
  void forgo(const BlobId& id);

  void on_offer(const BlobId& id);
  void on_chunk(const BlobChunk& chunk);
  void on_abandon(const BlobId& id);

  bool busy() const { return !incoming_.empty(); }
  std::string describe() const;  // what is under way, for a log; empty if nothing is

 private:
  friend class Intake;
  // It sends the blob or was asked to.
  bool is_source(const BlobId& id) const { return incoming_.contains(id) || asked_.contains(id); }
  bool declines_size_of(const BlobId& id);
  bool declines_repaired(const BlobId& id);
  std::optional<std::string> ask(const BlobId& id);
  void decline(const BlobId& id, const std::string& reason);
  void take_back(const BlobId& id);
  void on_stored(const BlobId& id, std::uint64_t chunk);
  void on_completed(const BlobId& id);
  void on_failed(const BlobId& id, const std::system_error& failure, const std::string& repairer);
  void repair(const BlobId& id, std::uint64_t stays);

  std::shared_ptr<Intake> intake_;
  std::string peer_;
  Answer answer_;
  struct Asked {
    std::uint64_t life = 0;  // in the spool
    int repeats = 0;         // times that it was wanted since
  };
  std::map<BlobId, Asked> asked_;     // nothing has come yet
  std::set<BlobId> incoming_;         // begun, not complete
  std::set<BlobId> declined_;         // chunks still under way are dropped in silence
  std::set<BlobId> taken_back_;       // the chunks under way are the last
  std::map<BlobId, int> mismatches_;  // how often the hash was wrong
};

}  // namespace causeway::inter
