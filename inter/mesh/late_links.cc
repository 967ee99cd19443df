// Detours beside links that answer too late for messages. The hello of one says so: its nonce
// begins as that of the link, and its second half numbers the detour. The link carries blobs
// and heartbeats on. When these are well again, or come sooner than by the detour, or the detour is
// lost, messages go over the link again. Whoever leaves the detour says so on the link, and the
// other end answers; what came there of messages before is old.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include <spdlog/spdlog.h>

#include "inter/mesh/mesh_core.h"

namespace causeway::inter {
namespace {

// Each makes both ends say everything anew.
constexpr TokenRate kLeft{.per_s = 0.5, .at_once = 16};
constexpr std::size_t kNamesLink = std::tuple_size_v<SessionNonce> / 2;  // bytes of the nonce

}  // namespace

SessionNonce MeshCore::nonce_beside(const Session& link) {
  SessionNonce nonce = random_nonce();
  std::copy_n(link.nonce().begin(), kNamesLink, nonce.begin());
  return nonce;
}

bool MeshCore::is_beside(const SessionNonce& nonce, const Session& link) {
  return std::equal(nonce.begin(), nonce.begin() + kNamesLink, link.nonce().begin());
}

void MeshCore::on_answers(Peer& peer, LateAnswers::Clock::duration delay) {
  const auto now = LateAnswers::Clock::now();
  const auto by_detour = peer.beside ? peer.beside_delay : LateAnswers::Clock::duration{0};
  peer.answers.look(delay, now, by_detour);
  if (!begins_detours_to(peer) || !peer.beside || !peer.answers.are_well(now)) return;
  peer.answers.on_new_link(now);
  const bool in_time = delay < options_.late_answer / 2;
  leave_beside(peer,
               in_time ? "its answers come in time again"
                       : "its answers come sooner than by way of " + peer.beside->via(),
               true);
}

std::shared_ptr<Session> MeshCore::begin_beside(const PeerPtr& peer,
                                                const std::shared_ptr<Connection>& control,
                                                const SessionNonce& nonce, const std::string& via) {
  check_may_begin(*peer, *control);
  peer->session->mute(detour_number(nonce));
  peer->answers.avoid(LateAnswers::Clock::now());
  const auto before = std::exchange(peer->beside, make_session(peer, control, nonce, via));
  if (before) before->close(Errc::refused, kOtherLinkReason);
  peer->beside_delay = {};
  begin_anew(*peer, "its answers come too late: messages go by way of " + via);
  return peer->beside;
}

// Messages go over the link again. `tells`: the other end does not know. Whether its answers come
// too late is judged anew: detours that are lost at once must not take all time from it.
void MeshCore::leave_beside(Peer& peer, const std::string& reason, bool tells) {
  const auto left = std::exchange(peer.beside, nullptr);
  left->close(Errc::refused, reason);
  peer.answers.judge_anew();
  if (tells) peer.session->unmute();
  begin_anew(peer, "messages go over the link again: " + reason);
}

// By a detour that never began here, or no more, the other end may have missed what went over the
// link.
void MeshCore::on_messages_here(Peer& peer, std::uint64_t detour) {
  const std::string reason = "the other end left the detour";
  if (!peer.detours.left.take(TokenBucket::Clock::now(), kLeft))
    throw LinkError(Errc::refused, "it says too often that it left a detour");
  const bool known = detour == peer.session->last_detour();
  if (peer.beside && known)
    leave_beside(peer, reason, false);
  else if (!peer.beside && !known)
    begin_anew(peer, reason);
}

// It is down for a moment, so that both ends say anew what may have been lost on the way that they
// left; then it is up as before, for blobs still go over the link.
void MeshCore::begin_anew(const Peer& peer, const std::string& reason) {
  if (const auto more = refusals_.note(peer.name + " " + LogBudget::kind_of(reason)))
    spdlog::warn("{}: {} is up, but {}{}", options_.self, peer.name, reason, *more);
  handler_.on_peer_down(peer.name, reason);
  handler_.on_peer_up(peer.name, {});
}

}  // namespace causeway::inter
