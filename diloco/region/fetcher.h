// Which blobs this region still wants, and whom to ask for each and when: a peer is asked once, and
// the next one when nothing has arrived for a while.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/record.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::diloco {

class Fetcher {
 public:
  // A peer is asked again after at most so long.
  static constexpr Time kRetryMax = std::chrono::seconds{10};

  struct Want {
    std::string source;      // the peer most likely to hold it
    bool under_way = false;  // it was sent to us unasked: ask only if nothing arrives
    std::size_t rank = 0;    // the lowest is asked for first: peers send in the order of requests
    bool first = false;      // also before what was asked for already
  };
  struct Request {
    std::string peer;
    inter::BlobId blob;
  };

  // Replaces the set of wanted blobs; those already wanted keep their progress. Returns which peers
  // may be about to send what: they need not, or not before they are asked anew.
  std::vector<Request> set_wanted(const std::map<inter::BlobId, Want>& wanted, Time now);
  // Its senders were told so, and it is turned away where they offer it until it is asked for anew:
  // when it is wanted again, that is at once, whoever says that it is under way.
  void note_forgone(const inter::BlobId& blob);
  // Returns by how much the blob grew.
  std::uint64_t on_progress(const inter::BlobId& blob, std::uint64_t received_bytes, Time now);
  // Whatever came of it is gone.
  void on_lost(const inter::BlobId& blob) {
    const auto found = entries_.find(blob);
    if (found != entries_.end()) found->second.received_bytes = 0;
  }
  // It does not have the blob: the next one is asked.
  void on_absent(const std::string& peer, const inter::BlobId& blob, Time now);
  void on_peer_up(const std::string& peer, Time now);
  void on_peer_down(const std::string& peer, Time now);

  // The requests to make now, in the order of ranks. Nothing is asked while no peer is up.
  std::vector<Request> due(const std::set<std::string>& up, Time now);
  std::optional<Time> next_deadline() const;

  // Everybody was asked for it more than once, and nothing came: whoever says to have it may lie.
  // Until it comes, or somebody connects.
  bool in_vain(const inter::BlobId& blob) const { return in_vain_.contains(blob); }

  // All of these said that they do not have it.
  bool nobody_has(const inter::BlobId& blob, const std::set<std::string>& up) const;

  std::vector<inter::BlobId> wanted() const;
  std::uint64_t received_bytes(const inter::BlobId& blob) const;

 private:
  struct Entry {
    std::string source;  // asked first
    std::size_t rank = 0;
    bool first = false;
    std::string asked;                     // the peer that is expected to be sending
    std::set<std::string> senders = {};    // that peer, and those before it
    std::set<std::string> absent_at = {};  // peers that said so since they connected
    std::uint64_t received_bytes = 0;
    std::size_t attempts = 0;
    std::size_t unanswered = 0;  // attempts since it grew
    std::size_t queued = 0;      // those of them at a peer that sent something else meanwhile
    int spoilt = 0;              // times that all of it had to come again
    Time retry_after{0};
    Time ask_at{0};
  };
  void make_way(Time now, std::vector<Request>& forgone);
  bool is_queued(Entry& entry, Time now) const;
  static const std::string& choose(const Entry& entry, const std::set<std::string>& up);

  std::map<inter::BlobId, Entry> entries_;
  std::set<inter::BlobId> in_vain_;
  std::set<inter::BlobId> forgone_;
  std::map<std::string, Time> sent_at_;  // when something last came that the peer was asked for
};

}  // namespace causeway::diloco
