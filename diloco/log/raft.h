// Agreement on one log: Raft (Ongaro and Ousterhout 2014) with pre-vote and check-quorum (Ongaro's
// dissertation, 9.6 and 6.2) and membership changes of one vote at a time (4.1; the only voter may
// add two, as any quorum after it meets the one before it, which is the founder). A pure state
// machine: calls and the time go in, take() gives what is to be done.
//
// One member that lies must not stop the others, whatever it says about terms (electorate.h):
// - A word alone raises the own term by a step at most, and only while no leader is followed. A
//   leader, and who follows one, give way when those left in their term are no quorum.
// - Who is at a later term than a healthy leader is brought in by that leader, which has itself
//   elected again above it, once in a while.
// - Who leads in name only is not followed for long.
//
// The log is never compacted: its committed part is the ledger, which every region keeps in full
// anyway, so that a joiner is brought up by the same messages as a follower that lags. In memory
// are only the entries that forget_before() left.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "diloco/log/electorate.h"
#include "diloco/log/log_progress.h"
#include "diloco/log/membership.h"
#include "diloco/log/planted_bug.h"
#include "diloco/log/raft_log.h"
#include "diloco/log/record.h"

namespace causeway::diloco {

// What is on disk. Entries 1 to `committed` are the ledger.
struct RaftState {
  Term term = 0;
  std::string vote;           // region voted for in `term`
  std::vector<LogEntry> log;  // from entry `first` on
  Index committed = 0;
  Index first = 1;
  // Where entries before `first` are; it must outlive whoever is given this.
  const CommittedLog* earlier = nullptr;
};

struct VoteRequest {
  Term term = 0;
  bool pre = false;  // only asking whether it would be granted
  Index last_index = 0;
  Term last_term = 0;
};
struct VoteReply {
  Term term = 0;
  bool pre = false;
  bool granted = false;
};
struct AppendEntries {
  Term term = 0;
  Index previous_index = 0;
  Term previous_term = 0;
  std::vector<LogEntry> entries;
  Index commit = 0;
};
struct AppendReply {
  Term term = 0;
  bool accepted = false;
  Index index = 0;  // accepted: equal up to here. Otherwise: try from here on
};
struct RaftMessage {
  std::string incarnation;  // of its sender
  std::variant<VoteRequest, VoteReply, AppendEntries, AppendReply> body;
};

struct RaftOptions {
  std::string self;
  std::string incarnation;
  Time heartbeat{0};
  Time election{0};  // without a leader for this long up to twice as long: stand for election
  std::uint64_t seed = 0;
  PlantedBug planted = PlantedBug::none;
};

class Raft {
 public:
  Raft(RaftOptions options, RaftState state);

  void on_peer_up(const std::string& region, const std::string& incarnation, Time now);
  void on_peer_down(const std::string& region, Time now);
  // False: it contradicts what is committed here. Nothing of it was taken over.
  bool on_message(const std::string& region, const RaftMessage& message, Time now);
  void tick(Time now);
  // Only while leads(). A membership must differ in one vote at most from the current one, or add
  // votes to the only one. The current one must be settled.
  void propose(decltype(LogEntry::body) body, Time now);

  // In this order: save first, then send, then append to the ledger.
  struct Output {
    bool save = false;  // term(), vote(), and the log after what was committed before
    std::vector<std::pair<std::string, RaftMessage>> messages;
    std::vector<LogEntry> committed;  // newly
  };
  Output take();

  // Leader, and everything that earlier leaders may have committed is known to be.
  bool leads() const { return role_ == Role::leader && commit_ >= own_first_; }
  const std::optional<std::string>& leader() const { return leader_; }
  // It leads, or heard lately from the leader that it follows.
  bool is_led(Time now) const { return leader_ && leader_is_alive(now); }
  Term term() const { return term_; }
  const std::string& vote() const { return vote_; }
  const RaftLog& log() const { return log_; }
  Index committed() const { return handed_out_; }  // of the log: what take() has given
  // Entries before this one, all committed and on disk, are hardly wanted any more.
  void forget_before(Index index) { log_.forget_before(index); }
  const Electorate& electorate() const { return electorate_; }
  const Membership& membership() const { return electorate_.membership(); }
  // All that a leader called committed since this process started, if one was heard.
  bool up_to_date() const { return heard_commit_ > 0 && commit_ >= heard_commit_; }
  bool caught_up(const std::string& region) const;  // to the leader: has all that is committed
  // How long regions that were raised to a later term can stay without their leader, this region:
  // none if all of these are in its own.
  Time reunion_max(const std::set<std::string>& regions) const;
  std::optional<Time> next_deadline() const;

 private:
  // A pre-candidate asks whether it would be elected before it takes a new term.
  enum class Role { follower, pre_candidate, candidate, leader };
  struct Peer {
    std::string incarnation;
    LogProgress progress{};  // of use while this region leads
    Time heard_at{0};
    Time sent_at{0};
  };

  void add(LogEntry entry);
  void give_way_or_renew(Time now);
  bool leader_is_alive(Time now) const;
  void arm_election(Time now);
  void become_follower(Term term, std::optional<std::string> leader, Time now);
  void stand(Role candidacy, Time now);
  void count_vote(const std::string& region, Time now);
  void send(const std::string& region, decltype(RaftMessage::body) body);
  void send_entries(const std::string& region, Peer& peer, Time now);
  void send_entries_to_all(Time now);
  void advance_commit(Time now);
  void set_commit(Index index, Time now);
  void check_quorum(Time now);

  void on(const std::string& region, const VoteRequest& request, Time now);
  void on(const std::string& region, const VoteReply& reply, Time now);
  void on(const std::string& region, const AppendEntries& append, Time now);
  void on(const std::string& region, const AppendReply& reply, Time now);
  AppendReply take_in(const std::string& leader, const AppendEntries& append, Time now);
  Index merge(const AppendEntries& append);

  RaftOptions options_;
  Term term_ = 0;
  std::string vote_;
  RaftLog log_;
  Electorate electorate_;
  std::mt19937_64 random_;
  TermClaims claims_;
  Index commit_ = 0;
  Index heard_commit_ = 0;  // of leaders, oneself among them
  Index handed_out_ = 0;

  Role role_ = Role::follower;
  std::optional<std::string> leader_;
  std::optional<Time> leader_heard_at_;
  Time election_at_{0};
  std::set<std::string> votes_;  // of regions that vote
  Index own_first_ = 0;          // of a leader: its first entry
  // Of a leader: check_quorum() finds the same until then, as those that it counted have been heard
  // lately enough. Whatever else it looks at ends that.
  Time followed_until_{0};
  std::map<std::string, Peer> peers_;  // connected
  Output output_;
  bool contradicted_ = false;  // by the message that is being taken in
};

}  // namespace causeway::diloco
