// Links by way of a third region, for as long as the direct one is gone: control messages alone, as
// blobs have ways of their own (inter/route). One hop, never more: what came by way of a third
// region is not passed on.
//
// Of a pair, the region whose name sorts first begins them, through each region in turn that says
// that it has a link to the other. The third region sees who talks with whom and how much, and can
// only lose it: greeting, revocation and deadlines are those of any link.
#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "inter/base/text.h"
#include "inter/mesh/mesh_core.h"

namespace causeway::inter {
namespace {

using Clock = std::chrono::steady_clock;

// Each costs a handshake, and a third region may ask for as many as it likes.
constexpr TokenRate kBegun{.per_s = 2, .at_once = 32};

Relay end_of(const Relay& relay) {
  return {.step = Relay::Step::end, .number = relay.number, .region = relay.region, .bytes = {}};
}

asio::awaitable<void> sleep(asio::steady_timer& timer, std::chrono::milliseconds delay) {
  timer.expires_after(delay);
  std::error_code woken;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
}

}  // namespace

// ---- Who reaches whom ----

Neighbours MeshCore::neighbours() const {
  Neighbours linked;
  for (const auto& [name, peer] : peers_)
    if (peer->linked() && linked.regions.size() < kReportedLinksMax) linked.regions.push_back(name);
  return linked;
}

void MeshCore::tell_neighbours() {
  if (!options_.detours || stopping_) return;
  const Neighbours linked = neighbours();
  for (const auto& [name, peer] : peers_)
    if (peer->linked()) peer->session->tell(linked);
}

void MeshCore::on_neighbours(Peer& carrier, const Neighbours& neighbours) {
  carrier.detours.neighbours = {neighbours.regions.begin(), neighbours.regions.end()};
  for (const auto& [ends, detour] : detours_)
    if (ends.via == carrier.name && !carrier.detours.neighbours.contains(ends.peer))
      detour->close();
  for (const auto& [name, peer] : peers_)
    if (wants_detour(*peer) && carrier.detours.neighbours.contains(name))
      peer->detours.retry.cancel();
}

// ---- As the one that begins ----

bool MeshCore::begins_detours_to(const Peer& peer) const {
  return options_.detours && options_.self < peer.name;
}

bool MeshCore::wants_detour(const Peer& peer) const {
  return !peer.session || (peer.linked() && !peer.beside && peer.answers.are_late(Clock::now()));
}

// Beside a link, none whose answers are as late.
PeerPtr MeshCore::next_carrier(Peer& peer) const {
  std::vector<PeerPtr> carriers;
  const auto now = Clock::now();
  for (const auto& [name, other] : peers_) {
    const bool late = peer.linked() && other->answers.are_late(now);
    if (other->linked() && !late && other->detours.neighbours.contains(peer.name))
      carriers.push_back(other);
  }
  return carriers.empty() ? nullptr : carriers[peer.detours.tried++ % carriers.size()];
}

asio::awaitable<void> MeshCore::detour_loop(Self self, PeerPtr peer) {
  while (!self->stopping_ && !peer->removed) {
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(
        peer->changed + self->options_.detour_delay - Clock::now());
    const bool wants = self->wants_detour(*peer);
    const bool waits = wants && wait.count() > 0;
    const PeerPtr carrier = waits || !wants ? nullptr : self->next_carrier(*peer);
    if (!carrier) {
      const auto& options = self->options_;
      const auto look_again = std::min(options.late_answer, options.reconnect_delay_max);
      co_await sleep(peer->detours.retry, waits ? wait : look_again);
      continue;
    }
    std::string failure;
    try {
      co_await begin_detour(self, peer, carrier);
    } catch (const LinkError& error) {
      failure = error.reason();
    }
    if (self->stopping_ || peer->removed) break;
    if (!failure.empty() && !peer->session) self->log_detour(*peer, carrier->name, failure);
    co_await sleep(peer->detours.retry, peer->detours.backoff.next());
  }
}

asio::awaitable<void> MeshCore::begin_detour(Self self, PeerPtr peer, PeerPtr carrier) {
  const std::string via = carrier->name;
  const bool beside = peer->linked();
  const SessionNonce nonce = beside ? nonce_beside(*peer->session) : random_nonce();
  // A way that takes as long as what it is to be quicker than is of no use.
  const auto limit = beside
                         ? std::min(self->options_.late_answer, self->options_.handshake_deadline)
                         : self->options_.handshake_deadline;
  const std::uint64_t number = detour_number(nonce);
  const auto control = self->carry(*peer, *carrier, number, TlsRole::client);
  carrier->session->relay(
      FrameType::relay,
      {.step = Relay::Step::begin, .number = number, .region = peer->name, .bytes = {}});
  std::string greeting;
  {
    const Deadline deadline(self->executor_, limit, [limit, control] {
      control->close(Errc::deadline, "no answer to our greeting within " + seconds_text(limit));
    });
    const std::string certified = co_await control->handshake();
    self->check_detour_end(*peer, certified);
    const Hello hello = self->hello(ConnectionKind::detour, nonce);
    const Judge judge = self->judge(*peer, greeting);
    const Verdicts verdicts = co_await greet_listener(*control, peer->name, hello, judge);
    self->act_on(verdicts, *peer);
  }
  const auto session = self->begin_detour_session(peer, control, nonce, via, greeting);
  co_await run_session(self, peer, session);
}

// ---- As the one that answers ----

void MeshCore::on_relayed(Peer& carrier, const Relay& relay) {
  const auto known = detours_.find({relay.region, carrier.name});
  if (relay.step == Relay::Step::begin) {
    if (answer(carrier, relay)) return;
  } else if (known != detours_.end() && known->second->number() == relay.number) {
    return relay.step == Relay::Step::end ? known->second->finish()
                                          : known->second->take(relay.bytes);
  }
  if (relay.step != Relay::Step::end) carrier.session->relay(FrameType::relay, end_of(relay));
}

// False: it is not to be had.
bool MeshCore::answer(Peer& carrier, const Relay& relay) {
  const auto found = peers_.find(relay.region);
  const bool welcome = options_.detours && found != peers_.end() && found->first < options_.self &&
                       found->second.get() != &carrier &&
                       carrier.detours.begun.take(TokenBucket::Clock::now(), kBegun);
  if (!welcome) return false;
  const PeerPtr& peer = found->second;
  try {
    const auto control = carry(*peer, carrier, relay.number, TlsRole::server);
    tasks_.spawn(answer_detour(shared_from_this(), peer, control, carrier.name));
    return true;
  } catch (const LinkError& error) {
    log_detour(*peer, carrier.name, error.reason());
    return false;
  }
}

asio::awaitable<void> MeshCore::answer_detour(Self self, PeerPtr peer,
                                              std::shared_ptr<Connection> control,
                                              std::string via) {
  std::string failure;
  try {
    co_await admit_detour(self, peer, control, via);
  } catch (const LinkError& error) {
    failure = error.reason();
  }
  if (!failure.empty() && !self->stopping_ && !peer->session) self->log_detour(*peer, via, failure);
}

asio::awaitable<void> MeshCore::admit_detour(Self self, PeerPtr peer,
                                             std::shared_ptr<Connection> control, std::string via) {
  std::optional<Deadline> deadline;
  deadline.emplace(self->executor_, self->options_.handshake_deadline, [self, control] {
    control->close(Errc::deadline,
                   "no greeting within " + seconds_text(self->options_.handshake_deadline));
  });
  const std::string certified = co_await control->handshake();
  self->check_detour_end(*peer, certified);
  const Hello theirs = co_await read_hello(*control);
  if (theirs.kind != ConnectionKind::detour || theirs.sender != peer->name)
    co_await refuse(*control, "it does not greet as " + peer->name + " by way of " + via);
  const std::string objection =
      peer->objection_to_namesake(self->handler_.process_of(theirs.greeting), "by way of " + via);
  if (!objection.empty()) co_await refuse(*control, objection);
  const Hello mine = self->hello(ConnectionKind::detour, theirs.nonce);
  const Judge judge = self->judge(*peer);
  const Verdicts verdicts = co_await greet_dialler(*control, theirs, mine, judge);
  self->act_on(verdicts, *peer);
  deadline.reset();
  const auto session =
      self->begin_detour_session(peer, control, theirs.nonce, via, theirs.greeting);
  co_await run_session(self, peer, session);
}

// ---- As either ----

// What is there of the two by way of the same region gives way.
std::shared_ptr<Connection> MeshCore::carry(const Peer& peer, const Peer& carrier,
                                            std::uint64_t number, TlsRole role) {
  const auto detour = std::make_shared<Detour>(executor_, peer.name, number, carrier.session);
  const auto control = connections_.carried(detour->take_near_end(), carrier.name, role);
  const DetourEnds ends{peer.name, carrier.name};
  if (const auto before = std::exchange(detours_[ends], detour)) before->close();
  tasks_.spawn(run_detour(shared_from_this(), ends, detour));
  return control;
}

asio::awaitable<void> MeshCore::run_detour(Self self, DetourEnds ends, Detour::Self detour) {
  co_await Detour::run(detour);
  const auto still = self->detours_.find(ends);
  if (still != self->detours_.end() && still->second == detour) self->detours_.erase(still);
}

void MeshCore::check_detour_end(const Peer& peer, const std::string& certified) const {
  if (certified != peer.name) {
    throw LinkError(Errc::refused, "the certificate at the other end is for \"" +
                                       printable(certified) + "\", not for \"" + peer.name + "\"");
  }
}

// A direct link that is fresh stays, unless another process of the region has it. An older one is
// dead where the other region comes another way, unless it names that link. Whoever begins goes
// through with it, though answers are well again: the other end has begun, and would take the end
// of this for that of the link.
std::shared_ptr<Session> MeshCore::begin_detour_session(const PeerPtr& peer,
                                                        const std::shared_ptr<Connection>& control,
                                                        const SessionNonce& nonce,
                                                        const std::string& via,
                                                        const std::string& greeting) {
  const bool beside =
      peer->linked() && !peer->session->is_closed() && is_beside(nonce, *peer->session);
  const std::string process = handler_.process_of(greeting);
  const bool is_fresh = peer->is_fresh() && !peer->namesakes.compete(process);
  const bool stays = !beside && (begins_detours_to(*peer) || is_fresh);
  if (peer->linked() && stays) throw LinkError(Errc::refused, kOtherLinkReason);
  if (beside && peer->session->was_left(detour_number(nonce)))
    throw LinkError(Errc::refused, "the other end has left it again");
  peer->detours.backoff.reset();
  if (beside) return begin_beside(peer, control, nonce, via);
  const auto session = begin(peer, control, nonce, via);
  peer->namesakes.link(process);
  return session;
}

void MeshCore::close_detours_by(const std::string& via) {
  for (const auto& [ends, detour] : detours_)
    if (ends.via == via) detour->close();
}

void MeshCore::log_detour(const Peer& peer, const std::string& via, const std::string& failure) {
  if (const auto more = refusals_.note(peer.name + " " + via + " " + failure)) {
    spdlog::warn("{}: no link to {} by way of {}: {}{}", options_.self, peer.name, via, failure,
                 *more);
  }
}

// ---- As the third ----

// What there is no room for ends its connection: the two make another. It must not cost the links
// that carry it.
void MeshCore::on_relay(const Peer& from, const Relay& relay) {
  const Peer* const to = find(relay.region);
  if (to != nullptr && to != &from && to->linked() && to->session->takes_relayed()) {
    Relay onward = relay;
    onward.region = from.name;
    return to->session->relay(FrameType::relayed, onward);
  }
  if (relay.step != Relay::Step::end) from.session->relay(FrameType::relayed, end_of(relay));
}

}  // namespace causeway::inter
