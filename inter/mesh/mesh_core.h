// The mesh behind its public face: peers, and the coroutines that listen and dial. One thread.
// Coroutines hold the core by shared_ptr, so a mesh that is destroyed without stop() leaves them
// something to end on.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <asio/ip/tcp.hpp>

#include "inter/base/async.h"
#include "inter/base/limits.h"
#include "inter/base/retry.h"
#include "inter/door/strangers.h"
#include "inter/door/tls_door.h"
#include "inter/mesh/connection.h"
#include "inter/mesh/detour.h"
#include "inter/mesh/greeting.h"
#include "inter/mesh/mesh.h"
#include "inter/mesh/open_connections.h"
#include "inter/mesh/peer.h"
#include "inter/mesh/segment_sizes.h"
#include "inter/mesh/session.h"
#include "inter/route/router.h"
#include "inter/tls/tls.h"

namespace causeway::inter {

// A connection by way of a third region.
struct DetourEnds {
  std::string peer, via;
  auto operator<=>(const DetourEnds&) const = default;
};

class MeshCore : public std::enable_shared_from_this<MeshCore> {
 public:
  using Self = std::shared_ptr<MeshCore>;

  MeshCore(asio::any_io_executor executor, MeshOptions options, Spool& spool, MeshHandler& handler);

  static void start(const Self& self);
  void shut_down();  // everything ends soon; no handler is called any more
  asio::awaitable<void> join() { return tasks_.join(); }

  std::uint16_t listening_port() const { return door_ ? door_->port() : 0; }
  void set_peers(const Self& self, const std::map<std::string, Endpoint>& peers,
                 const std::map<std::string, Endpoint>& second_addresses);
  void drop_peers(const std::string& reason);
  Peer* find(const std::string& name) const;                // null: not a peer
  void push_blob(const std::string& to, const BlobId& id);  // whichever way
  void forgo_blob(const std::string& from, const BlobId& id);
  const std::map<std::string, PeerPtr>& peers() const { return peers_; }
  const std::map<std::string, Carried>& removed() const { return removed_; }
  const MeshOptions& options() const { return options_; }
  const Intake& intake() const { return *intake_; }

 private:
  // Of these peers, those that cannot be dialled while we cannot be either.
  std::set<std::string> unreachable(const std::map<std::string, Endpoint>& peers) const;
  void refuse_unreachable() const;
  void note_unreachable(const std::map<std::string, Endpoint>& peers);
  void add_peer(const Self& self, const std::string& name, const Endpoint& endpoint);
  void change_endpoint(const Self& self, const PeerPtr& peer, const Endpoint& endpoint);
  void remove_peer(const PeerPtr& peer, const std::string& reason);
  static asio::awaitable<void> watch_credentials(Self self);

  // listener.cc
  static void open_door(const Self& self);
  static asio::awaitable<void> serve(Self self, TlsDoor::Guest guest);
  static asio::awaitable<void> see_off(Self self, std::shared_ptr<Connection> connection);
  static asio::awaitable<void> admit(Self self, std::shared_ptr<Connection> connection,
                                     std::string region);
  static asio::awaitable<void> admit_control(Self self, std::shared_ptr<Connection> control,
                                             PeerPtr peer, Hello theirs);
  static asio::awaitable<void> admit_data(Self self, std::shared_ptr<Connection> data, PeerPtr peer,
                                          Hello theirs);
  static asio::awaitable<void> admit_observer(Self self, std::shared_ptr<Connection> connection,
                                              std::string name, Hello theirs);
  void log_refusal(const Connection& connection, const std::string& reason);

  // dialler.cc
  static asio::awaitable<void> dial_loop(Self self, PeerPtr peer);
  static asio::awaitable<void> dial(Self self, PeerPtr peer);
  static asio::awaitable<void> keep_data_connection(Self self, PeerPtr peer,
                                                    std::shared_ptr<Session> session,
                                                    asio::ip::tcp::endpoint endpoint,
                                                    unsigned number);
  static asio::awaitable<std::shared_ptr<Connection>> open_data(Self self, PeerPtr peer,
                                                                asio::ip::tcp::endpoint endpoint,
                                                                SessionNonce nonce,
                                                                SegmentSize& segments);
  static asio::awaitable<std::shared_ptr<Connection>> open(Self self, PeerPtr peer);
  static asio::awaitable<std::shared_ptr<Connection>> open_named(Self self, PeerPtr peer,
                                                                 Endpoint address);
  static asio::awaitable<std::shared_ptr<Connection>> reach(Self self, PeerPtr peer,
                                                            asio::ip::tcp::endpoint endpoint);
  static asio::awaitable<std::shared_ptr<Connection>> open_at(Self self, PeerPtr peer,
                                                              asio::ip::tcp::endpoint endpoint,
                                                              bool small,
                                                              std::function<void()> turn);
  void note_small_segments(Peer& peer, const Connection& connection);

  // detours.cc
  Neighbours neighbours() const;
  void tell_neighbours();
  void on_neighbours(Peer& carrier, const Neighbours& neighbours);
  bool begins_detours_to(const Peer& peer) const;
  bool wants_detour(const Peer& peer) const;
  PeerPtr next_carrier(Peer& peer) const;  // null: there is none
  static asio::awaitable<void> detour_loop(Self self, PeerPtr peer);
  static asio::awaitable<void> begin_detour(Self self, PeerPtr peer, PeerPtr carrier);
  void on_relayed(Peer& carrier, const Relay& relay);
  bool answer(Peer& carrier, const Relay& relay);
  static asio::awaitable<void> answer_detour(Self self, PeerPtr peer,
                                             std::shared_ptr<Connection> control, std::string via);
  static asio::awaitable<void> admit_detour(Self self, PeerPtr peer,
                                            std::shared_ptr<Connection> control, std::string via);
  std::shared_ptr<Connection> carry(const Peer& peer, const Peer& carrier, std::uint64_t number,
                                    TlsRole role);
  static asio::awaitable<void> run_detour(Self self, DetourEnds ends, Detour::Self detour);
  void check_detour_end(const Peer& peer, const std::string& certified) const;
  std::shared_ptr<Session> begin_detour_session(const PeerPtr& peer,
                                                const std::shared_ptr<Connection>& control,
                                                const SessionNonce& nonce, const std::string& via,
                                                const std::string& greeting);
  void close_detours_by(const std::string& via);
  void log_detour(const Peer& peer, const std::string& via, const std::string& failure);
  void on_relay(const Peer& from, const Relay& relay);

  // late_links.cc
  static SessionNonce nonce_beside(const Session& link);
  static bool is_beside(const SessionNonce& nonce, const Session& link);
  void on_answers(Peer& peer, std::chrono::steady_clock::duration delay);
  std::shared_ptr<Session> begin_beside(const PeerPtr& peer,
                                        const std::shared_ptr<Connection>& control,
                                        const SessionNonce& nonce, const std::string& via);
  void leave_beside(Peer& peer, const std::string& reason, bool tells);
  void on_messages_here(Peer& peer, std::uint64_t detour);
  void begin_anew(const Peer& peer, const std::string& reason);

  // all of them
  static SessionNonce random_nonce();
  Hello hello(ConnectionKind kind, const SessionNonce& nonce) const;
  Judge judge(const Peer& peer);
  Judge judge(const Peer& peer, std::string& heard);  // puts the greeting there, which outlives it
  void act_on(const Verdicts& verdicts, const Peer& peer);
  std::shared_ptr<Session> begin_session(const PeerPtr& peer,
                                         const std::shared_ptr<Connection>& control,
                                         const SessionNonce& nonce, bool we_dialled,
                                         const std::string& greeting);
  std::shared_ptr<Session> begin(const PeerPtr& peer, const std::shared_ptr<Connection>& control,
                                 const SessionNonce& nonce, const std::string& via);
  void check_may_begin(const Peer& peer, const Connection& control) const;
  std::shared_ptr<Session> make_session(const PeerPtr& peer,
                                        const std::shared_ptr<Connection>& control,
                                        const SessionNonce& nonce, const std::string& via);
  static asio::awaitable<void> run_session(Self self, PeerPtr peer,
                                           std::shared_ptr<Session> session);
  void push_directly(Peer& peer, const BlobId& id);
  void pass_on(const BlobPass& pass);
  void on_completed(const std::string& from, const BlobId& id);
  void take_down(Peer& peer, const std::string& reason);

  asio::any_io_executor executor_;
  MeshOptions options_;
  Spool& spool_;
  MeshHandler& handler_;
  std::shared_ptr<Intake> intake_;
  Router router_;
  std::unique_ptr<TlsDoor> door_;  // none with dial_only, or before start()
  asio::steady_timer credentials_timer_;
  std::map<std::string, PeerPtr> peers_;
  std::map<std::string, Carried> removed_;  // peers that are none now
  std::map<DetourEnds, Detour::Self> detours_;
  OpenConnections connections_;
  // Certified, but not yet greeted; regions of one host may be many.
  Strangers<Connection> strangers_{kUnauthenticatedMax, kUnauthenticatedMax};
  LogThrottle refusals_;
  std::string refuses_all_;            // why; empty: it does not
  std::set<std::string> dropped_;      // who may still ask how things are
  std::set<std::string> unreachable_;  // as the log said
  TaskGroup tasks_;
  bool restarts_ = false;  // our TCP begins anew after every pause
  bool stopping_ = false;
};

}  // namespace causeway::inter
