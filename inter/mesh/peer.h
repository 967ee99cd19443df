// What the mesh knows of one peer: its links, who of the two dials, and which link stays if both
// did. Internal to inter. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "inter/base/retry.h"
#include "inter/base/token_bucket.h"
#include "inter/blob/blob_sender.h"
#include "inter/mesh/connection.h"
#include "inter/mesh/contest.h"
#include "inter/mesh/late_answers.h"
#include "inter/mesh/mesh.h"
#include "inter/mesh/namesakes.h"
#include "inter/mesh/segment_sizes.h"
#include "inter/mesh/session.h"
#include "inter/route/link_meter.h"

namespace causeway::inter {

inline constexpr const char* kOtherLinkReason = "another link between the two stands";

// What a peer's links carried so far.
struct Carried {
  std::shared_ptr<Traffic> traffic = std::make_shared<Traffic>();  // connections count into it
  std::uint64_t connects = 0;
};

// Shared, because a peer that is removed lives on until its coroutines have ended.
struct Peer {
  Peer(const asio::any_io_executor& executor, const Spool& spool, const MeshOptions& options,
       const std::string& name_in, const Endpoint& endpoint_in);

  std::vector<Endpoint> addresses() const;  // in the order in which they are dialled
  // For one of the data connections: each waits otherwise, so that they do not come back in step.
  Backoff backoff_of(unsigned connection) const;
  // Without a third region.
  bool linked() const { return session && session->via().empty(); }
  // What carries its messages; while there is a session.
  Session& for_messages() const { return beside ? *beside : *session; }
  void close(std::error_code code, const std::string& reason);  // what there is of the two
  // The direct link is young: another one is no proof that it is dead.
  bool is_fresh() const;

  // Whether we dial at once, and it only if there is no link for a while; both ends must come to
  // the same answer. A region that cannot be dialled dials everybody.
  bool we_dial_first() const;
  // Until we dial; 0: now. While there is a link, until we look again.
  std::chrono::milliseconds dials_in() const;
  // Whether another link that one of the two dialled must give way to the one that stands.
  bool keeps_link(bool we_dialled) const;
  // To a link that this process of it dialled. Empty: none.
  std::string objection_to_link(const Connection& control, const std::string& process);
  // To another process of it than the one that has the session and began first. `from`: "at ..."
  // or "by way of ...".
  std::string objection_to_namesake(const std::string& process, const std::string& from) const;
  // Why a link that this process of it dialled ends the one that stands.
  std::string reason_to_replace(const Connection& control, const std::string& process) const;

  const MeshOptions& options;  // of the mesh
  std::string name;
  Endpoint endpoint;
  std::optional<asio::ip::tcp::endpoint> reached_at;  // by the last connection that we dialled
  SmallSegments small_segments;                       // of those that we dial next
  bool removed = false;                               // no longer in the roster: its coroutines end
  BlobSender outgoing;
  Backoff backoff;
  LogThrottle failures;
  asio::steady_timer retry;
  std::shared_ptr<Session> session;  // set: the peer is up, directly or by way of a third region
  // By way of a third region, beside a link that answers too late for messages. It ends with the
  // link; without it the link carries messages again.
  std::shared_ptr<Session> beside;
  std::chrono::steady_clock::duration beside_delay{0};  // of its answers
  LateAnswers answers;                                  // of the link
  bool first_dialled = false;  // it is a link of who dials first of the two
  // The direct link: up, or down.
  std::chrono::steady_clock::time_point changed = std::chrono::steady_clock::now();
  Contest contest;
  Namesakes namesakes;
  // At the listener: a control connection whose greeting is under way.
  std::weak_ptr<Connection> greeting;
  Carried carried;
  LinkMeter meter;

  // By way of third regions (detours.cc).
  struct Detours {
    asio::steady_timer retry;
    Backoff backoff;
    BlobSender nothing;                     // is sent that way
    LinkMeter others_links = {};            // are measured that way
    std::set<std::string> neighbours = {};  // whom the peer says that it has links to
    std::size_t tried = 0;
    TokenBucket begun = {};  // by others, by way of this peer
    TokenBucket left = {};   // by this peer, beside its link
  };
  Detours detours;
};

using PeerPtr = std::shared_ptr<Peer>;

}  // namespace causeway::inter
