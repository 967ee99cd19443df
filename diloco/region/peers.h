// The other regions as this one knows them: who is connected, what each said last about where it
// stands, and who is not believed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/membership.h"
#include "diloco/log/messages.h"
#include "diloco/region/action.h"

namespace causeway::diloco {

class Peers {
 public:
  explicit Peers(Outbox& out, PlantedBug planted = PlantedBug::none)
      : out_(out), planted_(planted) {}

  // `via`: the third region that carries what is said; empty: a direct link.
  void set_up(const std::string& peer, const std::string& incarnation, const std::string& via = {});
  bool set_down(const std::string& peer);  // false: it was not up
  enum class Heard { stale, same, news };
  Heard hear(const std::string& peer, const Status& status);  // of one that is up

  // Those that can be talked with.
  const std::set<std::string>& up() const { return up_; }
  // Those of them that there is a direct link to: the others send no payloads.
  const std::set<std::string>& linked() const { return linked_; }
  bool is_up(const std::string& peer) const { return up_.contains(peer); }
  const std::string& incarnation(const std::string& peer) const;  // while it is up; else empty
  std::string via(const std::string& peer) const;                 // while it is up so; else empty
  // Its last word since this process started; null if there was none.
  const Status* status(const std::string& peer) const;
  bool any_heard() const;
  bool anyone_misses_payloads() const;  // as it last said
  // It knows what was taken back of the records as this region does. What it holds for rounds that
  // begin from another state is of no use here; it is told again once both know the same.
  bool reads_the_log_as(const std::string& peer, std::uint32_t revision) const {
    return status(peer) == nullptr || status(peer)->revision == revision;
  }
  // Two of them say that they have more records than this, or the leader does.
  bool are_ahead_of(std::uint32_t revision, Round version,
                    const std::optional<std::string>& leader) const;
  // All that said that they hold another state of the same version.
  std::vector<std::string> that_differ_from(const Applied& applied) const;

  // `what`, a clause, is what the peer says against that which is committed here. That counts only
  // when a majority stands behind it: then this region's ledger is the one that was replaced or
  // edited, and it ends. Anybody else is named and not listened to, until its link comes up anew.
  void doubt(const std::string& peer, const std::string& what, const Membership& members, Time now);
  bool doubts(const std::string& peer) const { return doubted_.contains(peer); }
  // It connected anew several times, and was doubted each time: it is not mended.
  bool doubts_for_good(const std::string& peer) const;
  // One more record is committed here. Who was up and not doubted for very many of them is mended:
  // a disk may err once in months.
  void note_record();

  // Those that are up and said that they read other data than this.
  std::vector<std::string> that_read_other(const DataDigest& data) const;
  // Any that is up read all of the same.
  bool any_read_the_same(const DataDigest& data) const;

  // The snapshots that these regions go on from, as they said last, each with the first round whose
  // payloads they still need after it. Two of each region: more would be a lie.
  std::map<Snapshot, Round> leaps_of(const Membership& members) const;
  // It said so: docs/late-regions.md.
  bool awaits_snapshot(const std::string& peer) const;

  // There is a link to it, and it says that it has all payloads of the round.
  bool has_payloads(const std::string& peer, Round round) const;
  bool any_has_payloads(Round round) const;
  // The same of the newest round, of which a peer may not have spoken yet: it has all others that
  // this region could lack.
  bool any_has_newest_payloads(Round round) const;
  // There is a link to a member that keeps payloads, which a witness does not.
  bool any_keeps_payloads(const Membership& members) const;
  // Whom to ask for a payload of the round: best the contributor, else a peer that has them all; if
  // none does, the contributor.
  std::string holder_of(const std::string& contributor, Round round) const;

  // Nothing is sent to a peer that is not up.
  void send(const std::string& peer, Message message);
  void broadcast(const Message& message);

 private:
  struct Peer {
    std::optional<Status> status;  // since this process started
    bool heard = false;            // since the link is up
    std::string incarnation;       // while it is up
    std::string via;               // the same
  };
  struct Doubts {
    int times = 0;
    int records_since = 0;  // while it was listened to
  };

  Outbox& out_;
  PlantedBug planted_;
  std::map<std::string, Peer> peers_;
  std::set<std::string> up_, linked_;
  std::set<std::string> doubted_;
  std::map<std::string, Doubts> doubts_;  // of those that have not proven themselves since
  std::map<std::string, Time> named_at_;  // to the log
};

// Whoever sent this has all payloads of the round.
bool has_payloads(const Status& status, Round round);

}  // namespace causeway::diloco
