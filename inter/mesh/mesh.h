// The mesh: this coordinator's links to all the others.
//
// Per peer TLS 1.3 connections, mutually authenticated, to the peer's one listening port: one for
// control messages, several for bulk data, so that bulk can never starve control. Of a pair, the
// region whose name sorts first dials; the other one does when there is no link for a while, for
// the first may have a wrong address. If both succeed, the link of the first stays. A lost link is
// dialled again with exponential back-off and jitter, for ever. A region that can only dial out
// dials all others. Of two processes with one certificate the one that began first gets the link. A
// peer is "up" when the control connection stands and both sides accepted the other's greeting; a
// data connection that is lost is dialled again while the peer stays up. Where no direct link can
// be had, a peer is up by way of a third region that both have links to, for control messages alone
// and with TLS from end to end (detours.cc), until the direct link is back. So it is beside a link
// that answers too late, which goes on with blobs.
//
// Frames: versioned, typed, length-checked before allocation (docs/wire-format.md). Heartbeats on
// the control connection measure the round trip; a connection on which nothing arrives for the idle
// deadline is dropped, and the log says how long and what was under way.
//
// Bulk: push_blob streams a blob from the spool in chunks over all data connections, each taking
// the next chunk when it can; every chunk is acknowledged, and after any drop only what was not
// acknowledged goes again. fetch_blob may be asked of several peers at once: they share the work.
// Contents are hashed as they come (verifier.h).
//
// Threads: everything runs on the executor given, which must be one thread or a strand.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "inter/base/error.h"
#include "inter/blob/spool.h"
#include "inter/door/tls_door.h"
#include "inter/frame/blob_chunks.h"
#include "inter/route/topology.h"
#include "inter/tls/pki.h"

namespace causeway::inter {

// What a coordinator needs of its links, so that the same coordinator runs over TLS (Mesh) and in
// virtual time. What comes back is told to a MeshHandler (mesh.h). A region that is not a peer (any
// more) is treated as one that is down for ever.
class Channel {
 public:
  virtual ~Channel() = default;

  // Directly, or by way of a third region.
  virtual bool is_up(const std::string& peer) const = 0;
  // Queues a control message. Silently dropped if the peer is down: state is exchanged anew when it
  // comes up.
  virtual void send(const std::string& peer, std::string message) = 0;
  // Streams a blob that this side holds, in the order of the calls, from the first byte the peer
  // lacks as far as known (0 at first). Stays queued while there is no way to the peer and goes on
  // where it ended; a blob removed meanwhile is skipped.
  virtual void push_blob(const std::string& peer, const BlobId& id) = 0;
  // Asks a peer to stream a blob from where our copy ends. A peer that lacks it ignores this.
  // Silently dropped if there is no direct link to the peer, or when all of the blob is here or
  // already arriving from that peer.
  virtual void fetch_blob(const std::string& peer, const BlobId& id) = 0;
  // Takes that back, and what the peer pushes of the blob unasked: it sends no more of it than is
  // under way, until the blob is fetched or pushed anew.
  virtual void forgo_blob(const std::string& peer, const BlobId& id) = 0;
};

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};
// "host:port", "[v6]:port". Throws Errc::bad_address with what is allowed.
Endpoint parse_endpoint(const std::string& text);
std::string to_string(const Endpoint& endpoint);
[[noreturn]] void throw_cannot_listen(const Endpoint& bind, const std::error_code& reason);

struct MeshOptions {
  std::string self;  // this region's name
  Endpoint bind;     // port 0: any free port (see Mesh::listening_port)
  // Where to dial each other region of the roster. An empty host: it cannot be dialled, so it dials
  // us.
  std::map<std::string, Endpoint> peers;
  // Where to dial some of them if that does not lead to the peer.
  std::map<std::string, Endpoint> second_addresses = {};
  // Those that this region's own configuration does not name. Others may name anybody, so none of
  // these keeps the mesh from starting.
  std::set<std::string> named_by_others = {};
  bool dial_only = false;  // nobody can dial this region (NAT, firewall): it dials every peer
  Credentials credentials;
  std::chrono::milliseconds heartbeat_interval{500};
  std::chrono::milliseconds idle_deadline{10'000};
  std::chrono::milliseconds handshake_deadline{10'000};
  std::chrono::milliseconds credentials_interval{2'000};  // how often to look for replaced files
  std::chrono::milliseconds reconnect_delay_min{100};
  std::chrono::milliseconds reconnect_delay_max{5'000};
  // Whether a peer without a link is reached by way of a third region, and after how long.
  bool detours = true;
  std::chrono::milliseconds detour_delay{1'000};
  // Where heartbeats are answered later than this for a while, control messages go that way, too.
  std::chrono::milliseconds late_answer{2'000};
  // Where large packets seem to be lost, so long until they are tried again on a data connection;
  // twice as long each time that they are.
  std::chrono::milliseconds small_segments_for{60'000};
  // Without a link for so long, the region that should be dialled dials too.
  std::chrono::milliseconds second_dialler_delay{3'000};
  unsigned data_connections =
      0;  // per peer that we dial; 0: as many as the congestion control needs
  // Of TCP, by the kernel's name. "auto": bbr where the kernel lets us, otherwise what it has.
  std::string congestion_control = "auto";
  // How blobs travel (topology.h). Empty: as the measured links suggest.
  std::optional<Shape> topology;
  std::uint32_t message_bytes_max = 4U << 20;  // a control message larger than this is refused
  std::uint64_t blob_bytes_max = 1ULL << 40;   // a blob larger than this is refused
  std::uint64_t seed = 0;                      // of the back-off jitter
};

// Figures of one peer's link, cumulative over reconnections, and over the times that the peer was
// removed and returned. Bytes are counted at the sockets, TLS included.
struct LinkStats {
  bool up = false;       // the direct link
  std::string via = {};  // the third region by way of which messages reach the peer; else empty
  std::uint64_t tx_bytes = 0, rx_bytes = 0;
  std::uint64_t connects = 0;
  std::chrono::microseconds round_trip{0};  // smoothed; 0 until measured
  std::size_t data_connections = 0;
  // Of what we send, from real transfers; 0 until measured.
  double rate_bytes_per_s = 0;         // over all data connections
  double rate_p50_bytes_per_s = 0;     // half of its last 64 measurements are below
  double rate_p05_bytes_per_s = 0;     // 5 % of them are
  double stream_rate_bytes_per_s = 0;  // the fastest single one, as TCP sees it
  double loss = 0;                     // share of segments sent again, smoothed
  std::uint32_t segment_bytes = 0;     // of full ones, as the path takes them; 0 until known
  bool removed = false;  // not a peer any more: there is no link, only what it carried
};

// What the owner of a mesh must answer. Called on the mesh's executor, never from inside a call to
// the mesh.
class MeshHandler {
 public:
  virtual ~MeshHandler() = default;
  // Opaque bytes to show a peer, which its handler judges. Asked for each link anew: what they say
  // may have changed since the last.
  virtual std::string greeting() { return {}; }
  // Empty: accepted. Otherwise the reason, which is logged here and sent to the peer.
  virtual std::string judge_greeting(const std::string& peer, const std::string& greeting) = 0;
  // Which process greets so: its name, which sorts by when it began (namesakes.h). Of untrusted
  // bytes; empty: they do not say.
  virtual std::string process_of(const std::string& /*greeting*/) { return {}; }
  // For an observer (observer.h): what `asker`, a region of the run or a certificate that may only
  // look, may see of this region now.
  virtual std::string report(const std::string& /*asker*/) { return {}; }
  // Somebody knocked with a follower's certificate, which links have no business with. Unanswered,
  // it is closed.
  virtual void on_follower(TlsDoor::Guest /*guest*/) {}
  // By its answer to our greeting (Errc::refused), or because our certificate is revoked there.
  virtual void on_refused_by(const std::string& peer, const LinkError& refusal) = 0;
  // `via`: the third region by way of which it is; empty: directly. When that changes it is down
  // first.
  virtual void on_peer_up(const std::string& peer, const std::string& via) = 0;
  virtual void on_peer_down(const std::string& peer, const std::string& reason) = 0;
  virtual void on_message(const std::string& peer, const std::string& message) = 0;
  virtual void on_blob(const std::string& from,
                       const BlobId& id) = 0;  // complete in the spool, hash checked
  // It was complete, was found to be damaged when a peer asked for it, and is gone.
  virtual void on_blob_lost(const BlobId&) {}
  // The peer does not have what it was asked for, or stops sending it.
  virtual void on_blob_absent(const std::string& /*peer*/, const BlobId&) {}
};

// The most memory that a mesh holds for its peers, buffers in the kernel's sockets not included:
// what is bounded by limits and back-pressure, and the maps of the blobs that fit in the spool.
std::uint64_t peak_bytes(const MeshOptions& options, std::uint64_t spool_capacity_bytes);

class Mesh : public Channel {
 public:
  // `spool` and `handler` must outlive the mesh.
  Mesh(asio::any_io_executor executor, MeshOptions options, Spool& spool, MeshHandler& handler);
  ~Mesh() override;

  // Binds and starts accepting and dialling. Throws std::system_error naming the address if it
  // cannot bind, or the file if a credential cannot be read, and Errc::unreachable_peer if a peer
  // that the configuration names cannot be dialled, neither can we, and no third one can be.
  void start();
  // Closes every connection and joins every coroutine. From its beginning on the handler is not
  // called any more; the same holds for the destructor, after which the executor may still have to
  // run what is left of the coroutines.
  asio::awaitable<void> stop();

  // The roster changed: peers that are new are linked to, those that are gone are dropped (told to
  // the handler as down, later), an address that changed is used from the next dialling on. A peer
  // that cannot be dialled while neither can we is reached by way of a third region, and the log
  // says once what to do.
  void set_peers(const std::map<std::string, Endpoint>& peers,
                 const std::map<std::string, Endpoint>& second_addresses = {});
  // All are dropped, and whoever links until the next set_peers() is refused for this reason.
  void drop_peers(const std::string& reason);

  std::uint16_t listening_port() const;  // 0 with dial_only
  bool is_up(const std::string& peer) const override;
  void send(const std::string& peer, std::string message) override;
  void push_blob(const std::string& peer, const BlobId& id) override;
  void fetch_blob(const std::string& peer, const BlobId& id) override;
  void forgo_blob(const std::string& peer, const BlobId& id) override;

  // Of all peers, and of those that were removed, so that no sum over them ever falls.
  std::map<std::string, LinkStats> stats() const;

  // What hashing arrivals has cost.
  struct Hashing {
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds cpu_time{0};
  };
  Hashing hashing() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::inter
