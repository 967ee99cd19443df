// The links to the other regions: who belongs to this run, what they say, and what is said to them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diloco/coordinator/coordinator_context.h"
#include "diloco/coordinator/greeting.h"
#include "diloco/log/membership.h"
#include "inter/base/retry.h"
#include "inter/mesh/mesh.h"

namespace causeway::diloco {

// Where the log or a file says that a member can be dialled. No host: it dials the others, or what
// stands there is no address, as a member may have anything written into the log.
inter::Endpoint endpoint_of(const Member& member);

// Where to dial the members other than this region.
struct Dialled {
  std::map<std::string, inter::Endpoint> first;
  std::map<std::string, inter::Endpoint> second;  // where the first does not lead to the member
};
// As configured here, which may know a way of its own, such as a private address or a proxy; else
// as the log says. Before the log is known, all that are configured. Of members that `moved` since
// the log first named them, what is configured may be of before: then as the log says, too.
Dialled dialled(const CoordinatorOptions& options, const Membership& membership,
                const std::set<std::string>& moved);

class PeerLinks : public inter::MeshHandler {
 public:
  // A member may connect again as often as it likes. Its link's coming up and going down are noted
  // so often each; what is left out is counted.
  static constexpr unsigned kEventsAMinute = 10;

  explicit PeerLinks(CoordinatorContext context);

  void start();  // throws std::system_error
  asio::awaitable<void> stop();
  // Ends all links. Whoever dials from then on is refused for this reason.
  void cut(const std::string& reason);
  std::uint16_t listening_port() const { return listening_port_; }  // since start()
  // Of links that were cut, or are removed: what they carried.
  std::map<std::string, inter::LinkStats> stats() const { return cut_ ? *cut_ : mesh_.stats(); }
  std::vector<std::string> up() const;
  // What a peer said that refuses this process for another one with the same certificate; empty
  // once a link comes up.
  const std::string& namesake() const { return namesake_; }
  // What each peer's contributions said that it has paid for what it sends.
  const std::map<std::string, double>& costs() const { return costs_; }

  void carry_out(const SendMessage& action);
  void carry_out(const PushBlob& action);
  void carry_out(const FetchBlob& action) { mesh_.fetch_blob(action.peer, action.blob); }
  void carry_out(const ForgoBlob& action) { mesh_.forgo_blob(action.peer, action.blob); }
  void carry_out(const UpdateMembers& action);

  // inter::MeshHandler
  std::string greeting() override;
  std::string judge_greeting(const std::string& peer, const std::string& greeting) override;
  std::string process_of(const std::string& greeting) override { return process_in(greeting); }
  std::string report(const std::string&) override {
    return context_.directory.files().text(context_.status());
  }
  void on_follower(inter::TlsDoor::Guest guest) override {
    if (context_.on_follower) context_.on_follower(std::move(guest));
  }
  void on_refused_by(const std::string& peer, const inter::LinkError& refusal) override;
  void on_peer_up(const std::string& peer, const std::string& via) override;
  void on_peer_down(const std::string& peer, const std::string& reason) override;
  void on_message(const std::string& peer, const std::string& message) override;
  void on_blob(const std::string& from, const inter::BlobId& id) override;
  void on_blob_absent(const std::string& peer, const inter::BlobId& id) override {
    context_.driver.handle(BlobAbsent{peer, id});
  }
  void on_blob_lost(const inter::BlobId& id) override { context_.lose(id); }

 private:
  inter::MeshOptions mesh_options();
  Dialled dialled_now();
  void learn_run_id(const std::string& run_id);
  bool is_of_another_run(const std::string& peer, const std::string& run_id);
  void change_run_id(const std::string& run_id);
  bool counts(const std::string& peer, RefusalKind kind) const;
  std::size_t refusals_that_count() const;
  bool ends_joiners(const std::string& peer) const;
  void refused(const std::string& peer, RefusalKind kind, const std::string& reason,
               bool by_the_run);
  void add_event(const std::string& event, const std::string& peer, const std::string& text);

  CoordinatorContext context_;
  Membership members_;                               // to whom there are links
  std::map<std::string, std::string> incarnations_;  // as greeted
  inter::LogThrottle oversized_;                     // messages
  inter::LogBudget events_{kEventsAMinute};          // of one kind and peer
  std::string namesake_;
  std::map<std::string, double> costs_;
  std::map<std::string, RefusalKind> refusals_;  // of peers that this region and they refuse
  std::map<std::string, int> refused_;           // how often, while no other took this region in
  // The last run that a peer greeted with and that is not this one, and how often it did.
  struct OtherRun {
    std::string run_id;
    int greetings = 0;
  };
  std::map<std::string, OtherRun> other_runs_;
  std::set<std::string> with_nothing_;           // peers whose other run has trained nothing
  std::map<std::string, inter::Endpoint> told_;  // second addresses that the log named
  asio::steady_timer farewell_;                  // to whoever was removed
  inter::Mesh mesh_;
  std::optional<std::map<std::string, inter::LinkStats>> cut_;
  std::uint16_t listening_port_ = 0;
};

}  // namespace causeway::diloco
