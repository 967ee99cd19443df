#include "inter/mesh/mesh_core.h"

#include <utility>

#include <spdlog/spdlog.h>

#include "inter/mesh/resolve.h"
#include "inter/tls/credential_watch.h"
#include "inter/tls/pki.h"

namespace causeway::inter {
namespace {

using asio::ip::tcp;

constexpr const char* kRemovedReason = "the region left the roster";
constexpr std::chrono::milliseconds kResolveBind{10'000};

// Many connections make up for a congestion control that begins anew after every pause: each begins
// with its own initial window.
// Gives whether our TCP begins anew after every pause.
bool choose_congestion_control(const asio::any_io_executor& executor, MeshOptions& options) {
  constexpr unsigned kPacedConnections = 4;
  constexpr unsigned kRestartingConnections = 32;
  tcp::socket probe(executor, tcp::v4());
  std::string& wanted = options.congestion_control;
  const bool automatic = wanted == "auto";
  const bool granted = set_congestion_control(probe.native_handle(), automatic ? "bbr" : wanted);
  if (!granted && !automatic) {
    throw std::system_error(Errc::no_congestion_control,
                            "the kernel does not grant the congestion control \"" + wanted +
                                "\"; see net.ipv4.tcp_allowed_congestion_control, or use auto");
  }
  wanted = congestion_control(probe.native_handle());
  const bool restarts = wanted != "bbr" && restarts_after_idle();
  if (options.data_connections == 0)
    options.data_connections = restarts ? kRestartingConnections : kPacedConnections;
  spdlog::info("{}: congestion control {}, {} data connections to a peer{}", options.self, wanted,
               options.data_connections,
               restarts ? "; TCP begins anew after every pause (net.ipv4.tcp_slow_start_after_idle "
                          "is 1; set it to 0, or allow bbr)"
                        : "");
  return restarts;
}

}  // namespace

MeshCore::MeshCore(asio::any_io_executor executor, MeshOptions options, Spool& spool,
                   MeshHandler& handler)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      spool_(spool),
      handler_(handler),
      intake_(std::make_shared<Intake>(
          executor_, spool_, options_.blob_bytes_max,
          [this](const std::string& from, const BlobId& id) { on_completed(from, id); },
          asio::any_io_executor(), [this](const BlobId& id) { handler_.on_blob_lost(id); })),
      router_(options_.self, options_.topology),
      credentials_timer_(executor_),
      connections_(options_),
      tasks_(executor_) {}

void MeshCore::start(const Self& self) {
  self->connections_.load_credentials(Validity::required);
  self->tasks_.spawn(watch_credentials(self));
  self->restarts_ = choose_congestion_control(self->executor_, self->options_);
  spdlog::info("{}: at most {} MB of buffers for {} peers", self->options_.self,
               peak_bytes(self->options_, self->spool_.capacity_bytes()) / 1'000'000,
               self->options_.peers.size());
  self->refuse_unreachable();
  if (!self->options_.dial_only) open_door(self);
  const auto second_addresses = self->options_.second_addresses;
  self->set_peers(self, self->options_.peers, second_addresses);
}

void MeshCore::open_door(const Self& self) {
  const auto admit = [weak = std::weak_ptr(self)](TlsDoor::Guest guest) {
    const Self core = weak.lock();
    if (!core) return;
    // Its certificate says what it may do, before it has said a word: nothing here hears it.
    if (is_follower(guest.name)) return core->handler_.on_follower(std::move(guest));
    core->tasks_.spawn(serve(core, std::move(guest)));
  };
  const MeshOptions& options = self->options_;
  self->door_ =
      std::make_unique<TlsDoor>(self->executor_,
                                TlsDoorOptions{.owner = options.self,
                                               .credentials = options.credentials,
                                               .handshake_deadline = options.handshake_deadline},
                                admit);
  try {
    self->door_->listen(listening_address(options.bind, kResolveBind));
  } catch (const std::system_error& error) {
    throw_cannot_listen(options.bind, error.code());
  }
  self->door_->start();
}

// New handshakes use new files; links stay, but for those of peers that were revoked.
asio::awaitable<void> MeshCore::watch_credentials(Self self) {
  CredentialWatch watch(self->options_.self, self->options_.credentials);
  while (!self->stopping_) {
    self->credentials_timer_.expires_after(self->options_.credentials_interval);
    std::error_code cancelled;
    co_await self->credentials_timer_.async_wait(
        asio::redirect_error(asio::use_awaitable, cancelled));
    const auto load = [&] { self->connections_.load_credentials(Validity::missed); };
    if (!self->stopping_ && watch.reload(load)) self->connections_.check_revocations();
  }
}

std::set<std::string> MeshCore::unreachable(const std::map<std::string, Endpoint>& peers) const {
  std::set<std::string> names;
  for (const auto& [name, endpoint] : peers)
    if (name != options_.self && endpoint.host.empty() && options_.dial_only) names.insert(name);
  return names;
}

// What the configuration says is its author's to mend before anything runs: nobody is there by way
// of whom the two could talk.
void MeshCore::refuse_unreachable() const {
  const auto is_dialled = [this](const auto& peer) {
    return peer.first != options_.self && !peer.second.host.empty();
  };
  if (std::ranges::any_of(options_.peers, is_dialled)) return;
  for (const std::string& name : unreachable(options_.peers)) {
    if (options_.named_by_others.contains(name)) continue;
    throw std::system_error(Errc::unreachable_peer,
                            options_.self + " and " + name +
                                " can both only dial out; give one of them an address that the "
                                "other can dial");
  }
}

// Anybody in the run may name such a peer at any time, so none ends a region that runs.
void MeshCore::note_unreachable(const std::map<std::string, Endpoint>& peers) {
  const std::set<std::string> before = std::exchange(unreachable_, unreachable(peers));
  for (const std::string& name : unreachable_) {
    if (before.contains(name)) continue;
    spdlog::warn(
        "{0} and {1} can both only dial out, so they talk by way of a third region alone, as long "
        "as one has links to both. Give one of them an address that the other can dial "
        "(`causeway members add {1} HOST:PORT`), or remove {1} (`causeway members remove {1}`)",
        options_.self, name);
  }
}

void MeshCore::set_peers(const Self& self, const std::map<std::string, Endpoint>& peers,
                         const std::map<std::string, Endpoint>& second_addresses) {
  note_unreachable(peers);
  const bool others = options_.second_addresses != second_addresses;
  options_.second_addresses = second_addresses;
  const auto before = peers_;
  for (const auto& [name, peer] : before) {
    if (!peers.contains(name)) remove_peer(peer, kRemovedReason);
    if (others) peer->retry.cancel();  // no reason to wait, as for a changed endpoint
  }
  refuses_all_.clear();
  dropped_.clear();
  for (const auto& [name, endpoint] : peers) {
    // Not in peers_, whose pointer to it is gone as soon as it is removed.
    if (const auto known = before.find(name); known != before.end()) {
      change_endpoint(self, known->second, endpoint);
    } else if (name != options_.self) {
      add_peer(self, name, endpoint);
    }
  }
}

void MeshCore::add_peer(const Self& self, const std::string& name, const Endpoint& endpoint) {
  const auto peer = std::make_shared<Peer>(executor_, spool_, options_, name, endpoint);
  if (auto returned = removed_.extract(name)) peer->carried = std::move(returned.mapped());
  peers_[name] = peer;
  if (!endpoint.host.empty()) tasks_.spawn(dial_loop(self, peer));
  if (begins_detours_to(*peer)) tasks_.spawn(detour_loop(self, peer));
}

void MeshCore::change_endpoint(const Self& self, const PeerPtr& peer, const Endpoint& endpoint) {
  if (peer->endpoint == endpoint) return;
  if (peer->endpoint.host.empty() != endpoint.host.empty()) {
    remove_peer(peer, kRemovedReason);
    add_peer(self, peer->name, endpoint);
  } else {
    peer->endpoint = endpoint;
    peer->reached_at.reset();
    peer->retry.cancel();  // no reason to wait for what was wrong with the old address
  }
}

void MeshCore::drop_peers(const std::string& reason) {
  refuses_all_ = reason;
  const auto before = peers_;
  for (const auto& [name, peer] : before) {
    dropped_.insert(name);
    remove_peer(peer, reason);
  }
}

void MeshCore::remove_peer(const PeerPtr& peer, const std::string& reason) {
  peer->removed = true;
  peers_.erase(peer->name);
  removed_[peer->name] = peer->carried;  // what its connections still say as they end counts too
  peer->retry.cancel();
  peer->detours.retry.cancel();
  peer->close(Errc::refused, reason);
  if (const auto greeting = peer->greeting.lock()) greeting->close(Errc::refused, reason);
}

void MeshCore::shut_down() {
  stopping_ = true;
  intake_->stop();
  if (door_) door_->close();
  credentials_timer_.cancel();
  connections_.close();
  for (auto& [ends, detour] : detours_) detour->close();
  for (auto& [name, peer] : peers_) {
    peer->retry.cancel();
    peer->detours.retry.cancel();
    peer->close(std::make_error_code(std::errc::operation_canceled), kStopReason);
  }
}

Peer* MeshCore::find(const std::string& name) const {
  const auto found = peers_.find(name);
  return found == peers_.end() ? nullptr : found->second.get();
}

Hello MeshCore::hello(ConnectionKind kind, const SessionNonce& nonce) const {
  return {kind, nonce, options_.self,
          kind == ConnectionKind::data ? std::string() : handler_.greeting()};
}

Judge MeshCore::judge(const Peer& peer) {
  return [this, name = peer.name](const std::string& greeting) {
    return handler_.judge_greeting(name, greeting);
  };
}

Judge MeshCore::judge(const Peer& peer, std::string& heard) {
  return [judge = judge(peer), &heard](const std::string& greeting) {
    heard = greeting;
    return judge(greeting);
  };
}

void MeshCore::act_on(const Verdicts& verdicts, const Peer& peer) {
  if (!verdicts.theirs.empty()) {
    handler_.on_refused_by(peer.name, LinkError(Errc::refused, verdicts.theirs));
    throw LinkError(Errc::refused, peer.name + " refused us: " + verdicts.theirs);
  }
  if (!verdicts.ours.empty())
    throw LinkError(Errc::refused, "we refuse " + peer.name + ": " + verdicts.ours);
}

std::shared_ptr<Session> MeshCore::begin_session(const PeerPtr& peer,
                                                 const std::shared_ptr<Connection>& control,
                                                 const SessionNonce& nonce, bool we_dialled,
                                                 const std::string& greeting) {
  if (peer->keeps_link(we_dialled)) throw LinkError(Errc::refused, kOtherLinkReason);
  auto session = begin(peer, control, nonce, {});
  peer->namesakes.link(handler_.process_of(greeting));
  peer->first_dialled = we_dialled == peer->we_dial_first();
  peer->changed = std::chrono::steady_clock::now();
  peer->answers.on_new_link(peer->changed);
  ++peer->carried.connects;
  peer->failures.reset();
  peer->backoff.reset();
  tell_neighbours();
  return session;
}

std::shared_ptr<Session> MeshCore::begin(const PeerPtr& peer,
                                         const std::shared_ptr<Connection>& control,
                                         const SessionNonce& nonce, const std::string& via) {
  check_may_begin(*peer, *control);
  take_down(*peer, !via.empty()     ? "it comes by way of " + via
                   : peer->linked() ? kOtherLinkReason
                                    : "a direct link takes over");
  peer->session = make_session(peer, control, nonce, via);
  spdlog::info("{}: {} is up {}", options_.self, peer->name,
               via.empty() ? "at " + control->remote() : "by way of " + via);
  handler_.on_peer_up(peer->name, via);
  return peer->session;
}

void MeshCore::check_may_begin(const Peer& peer, const Connection& control) const {
  control.check_open();
  if (peer.removed)
    throw LinkError(Errc::refused, refuses_all_.empty() ? kRemovedReason : refuses_all_);
}

std::shared_ptr<Session> MeshCore::make_session(const PeerPtr& peer,
                                                const std::shared_ptr<Connection>& control,
                                                const SessionNonce& nonce, const std::string& via) {
  // Not the peer itself, which holds the session.
  const auto with_peer = [this, name = peer->name](auto call) {
    if (Peer* const present = find(name); present != nullptr && present->linked()) call(*present);
  };
  const auto tell = [this, with_peer](const Neighbours& those) {
    with_peer([&](Peer& carrier) { on_neighbours(carrier, those); });
  };
  const auto relay = [this, with_peer](FrameType type, const Relay& piece) {
    with_peer([&](Peer& carrier) {
      type == FrameType::relay ? on_relay(carrier, piece) : on_relayed(carrier, piece);
    });
  };
  const bool direct = via.empty();
  const auto here = [this, with_peer](std::uint64_t detour) {
    with_peer([&](Peer& linked) { on_messages_here(linked, detour); });
  };
  const auto answers = [this, with_peer, direct](std::chrono::steady_clock::duration delay) {
    with_peer([&](Peer& linked) {
      if (direct)
        on_answers(linked, delay);
      else
        linked.beside_delay = delay;
    });
  };
  return std::make_shared<Session>(
      SessionContext{executor_, options_, handler_, intake_, peer->name,
                     direct ? peer->outgoing : peer->detours.nothing,
                     direct ? peer->meter : peer->detours.others_links, router_, restarts_, via,
                     [this](const BlobPass& pass) { pass_on(pass); }, tell, relay, here, answers},
      control, nonce);
}

asio::awaitable<void> MeshCore::run_session(Self self, PeerPtr peer,
                                            std::shared_ptr<Session> session) {
  const std::string reason = co_await Session::run(session);
  const bool beside = peer->beside == session;
  if (beside && !peer->session->is_closed() && !self->stopping_)
    self->leave_beside(*peer, reason, true);
  else if (beside || peer->session == session)
    self->take_down(*peer, reason);
}

void MeshCore::push_blob(const std::string& to, const BlobId& id) {
  Peer* const peer = find(to);
  if (peer == nullptr) return;
  std::set<std::string> up;
  for (const auto& [name, other] : peers_)
    if (other->linked()) up.insert(name);
  std::vector<Hop> way = router_.way(id, to, up);
  if (way.size() == 1 && peer->session && !peer->linked())
    way = {{options_.self, peer->session->via()}, {peer->session->via(), to}};  // never measured
  push_directly(*find(way.front().to), id);
  for (auto hop = way.begin() + 1; hop != way.end(); ++hop)
    if (router_.ask(id, *hop)) find(hop->from)->session->pass({id, hop->to});
}

// A peer that is down may offer it when it is back. What others wait for is passed on nevertheless.
void MeshCore::forgo_blob(const std::string& from, const BlobId& id) {
  if (router_.passes_on(id)) return;
  intake_->forgo(id);
  const Peer* const peer = find(from);
  if (peer != nullptr && peer->linked()) peer->session->forgo(id);
}

void MeshCore::push_directly(Peer& peer, const BlobId& id) {
  const bool first = peer.outgoing.idle();
  peer.outgoing.push(id);
  if (peer.linked()) peer.session->begin_push(first);
}

void MeshCore::pass_on(const BlobPass& pass) {
  Peer* const peer = find(pass.to);
  if (peer == nullptr) return;
  if (spool_.has(pass.id)) {
    push_directly(*peer, pass.id);
  } else {
    router_.pass_later(pass.id, pass.to);
  }
}

void MeshCore::on_completed(const std::string& from, const BlobId& id) {
  for (const std::string& region : router_.take_passes(id))
    if (Peer* const peer = find(region); peer != nullptr) push_directly(*peer, id);
  handler_.on_blob(from, id);
}

void MeshCore::take_down(Peer& peer, const std::string& reason) {
  if (!peer.session) return;
  const bool linked = peer.linked();
  peer.close(Errc::refused, reason);
  peer.session.reset();
  peer.beside.reset();
  peer.detours.retry.cancel();
  if (linked) {
    router_.on_peer_down(peer.name);
    peer.changed = std::chrono::steady_clock::now();
    peer.retry.cancel();
    peer.detours.neighbours.clear();
    close_detours_by(peer.name);
    tell_neighbours();
  }
  if (!stopping_) {
    spdlog::warn("{}: {} is down: {}", options_.self, peer.name, reason);
    handler_.on_peer_down(peer.name, reason);
  }
}

}  // namespace causeway::inter
