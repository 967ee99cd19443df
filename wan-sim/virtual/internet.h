// The links between coordinators in virtual time: what inter::Mesh is over TLS. Per pair of regions
// a session of two connections, control and data, over the virtual network; dialled again after a
// loss, with back-off; a silence is noticed after the idle deadline. Blobs are phantoms: their
// sizes travel.
//
//   Internet              sessions between the regions that run
//   Internet::Site        one region's end: an inter::Channel, talking to its inter::MeshHandler
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "inter/frame/blob_chunks.h"
#include "inter/mesh/mesh.h"
#include "inter/route/router.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::wan_sim {

// Blobs that a region of a virtual run holds: names and counts, no bytes.
class PhantomSpool {
 public:
  bool has(const inter::BlobId& id) const {
    const auto found = received_.find(id);
    return found != received_.end() && found->second == id.size_bytes;
  }
  std::uint64_t received_bytes(const inter::BlobId& id) const {
    const auto found = received_.find(id);
    return found == received_.end() ? 0 : found->second;
  }
  void put(const inter::BlobId& id) { received_[id] = id.size_bytes; }
  // True if that completed it.
  bool append(const inter::BlobId& id, std::uint64_t bytes) {
    std::uint64_t& received = received_[id];
    const bool lacked = received < id.size_bytes;
    received = std::min(received + bytes, id.size_bytes);
    return lacked && received == id.size_bytes;
  }
  void remove(const inter::BlobId& id) { received_.erase(id); }
  void clear() { received_.clear(); }

 private:
  std::map<inter::BlobId, std::uint64_t> received_;
};

struct InternetOptions {
  // How blobs travel; empty: as the links suggest. As in inter::MeshOptions, but what a region
  // knows of the links is what they are, not what it measured. Of a host's rate, each of its links
  // counts with an equal share.
  std::optional<inter::Shape> topology = inter::Shape::direct;
  std::chrono::milliseconds idle_deadline{10'000};
};

class Internet {
 public:
  class Site;

  // `wan` must outlive it.
  explicit Internet(VirtualWan& wan, InternetOptions options = {});
  ~Internet();

  // The region's process starts: it is dialled and dials. `handler` and `spool` must outlive the
  // site, and the site must end before the Internet. A region has at most one site at a time.
  std::unique_ptr<Site> start(const std::string& region, std::string greeting, PhantomSpool& spool,
                              inter::MeshHandler& handler);

  // Progress of transfers to `region` under way shows in its spool. Needed in the fluid mode only.
  void settle(const std::string& region);
  std::uint64_t sent_bytes(const std::string& region) const;

 private:
  struct Stream;
  struct Session;
  struct Control;
  friend class Site;

  double fair_share(const std::string& from, const std::string& to) const;
  void stop(const std::string& region);
  void dial(const std::string& a, const std::string& b);
  void dial_later(const std::string& a, const std::string& b);
  void establish(const std::string& a, const std::string& b);
  bool accepted(const std::string& self, const std::string& peer);
  void open_streams(Session& session);
  Session* session(const std::string& a, const std::string& b);
  void lose(const std::string& a, const std::string& b, const std::string& first,
            const std::string& reason);
  void tell_down(const std::string& self, const std::string& peer, const std::string& reason);
  void on_action(const Action& action);
  void watch_silence(const Pair& pair);
  void on_message_bytes(Stream& stream, std::uint64_t bytes);
  void on_blob_bytes(Stream& stream, std::uint64_t bytes);
  bool is_full(const Stream& stream) const;
  void push_next(Stream& stream);
  void settle(const Stream& stream);
  void send_control(Stream& stream, Control control);
  void ask_to_pass(const std::string& asking, const inter::Hop& hop, const inter::BlobId& id);

  VirtualWan& wan_;
  InternetOptions options_;
  std::map<std::string, Site*> sites_;
  std::map<Pair, std::unique_ptr<Session>> sessions_;  // unordered pairs
  std::map<Pair, std::chrono::milliseconds> redial_;   // how long to wait next
  std::map<Pair, std::uint64_t> dialled_;              // attempts; an older one is void
  std::map<Pair, Time> silent_since_;                  // directed: a black hole
  std::map<std::string, std::uint64_t> sent_bytes_;
  std::map<std::string, double> host_bytes_per_s_;  // of regions that share a rate
};

// What is under way between two regions in virtual time. Internal to the virtual engine.
// What goes over a control connection.
struct Internet::Control {
  std::uint64_t bytes = 0;  // that have not arrived
  std::string message{};
  // Instead of a message: to be sent back or, if `pass_to` is set, to be passed on to that region.
  // Or, if `forgone`, to be sent no more.
  std::optional<inter::BlobId> blob{};
  std::string pass_to{};
  bool forgone = false;
};

// One direction of a session.
struct Internet::Stream {
  std::string from, to;
  VirtualNetwork::FlowId control = 0, data = 0;
  std::deque<Control> messages{};
  struct Pushing {
    inter::BlobId id;
    std::uint64_t wire_bytes, blob_bytes;  // to come
  };
  std::deque<Pushing> pushing{};  // on their way, one behind the other
};

struct Internet::Session {
  Stream there, back;
  Stream& from(const std::string& region) { return there.from == region ? there : back; }
};

// One region's end of the links in virtual time.

class Internet::Site : public inter::Channel {
 public:
  ~Site() override;

  bool is_up(const std::string& peer) const override { return up_.contains(peer); }
  void send(const std::string& peer, std::string message) override;
  void push_blob(const std::string& peer, const inter::BlobId& id) override;
  void fetch_blob(const std::string& peer, const inter::BlobId& id) override;
  void forgo_blob(const std::string& peer, const inter::BlobId& id) override;

 private:
  friend class Internet;
  Site(Internet& internet, std::string region, std::string greeting, PhantomSpool& spool,
       inter::MeshHandler& handler)
      : internet_(internet),
        region_(std::move(region)),
        greeting_(std::move(greeting)),
        spool_(spool),
        handler_(handler),
        router_(region_, internet.options_.topology) {}

  void learn_links();
  void push_directly(const std::string& peer, const inter::BlobId& id);
  void pass_on(const inter::BlobId& id, const std::string& to);
  void on_completed(const std::string& from, const inter::BlobId& id);

  Internet& internet_;
  std::string region_, greeting_;
  PhantomSpool& spool_;
  inter::MeshHandler& handler_;
  inter::Router router_;
  bool links_known_ = false;  // to the router, as they are now
  std::set<std::string> up_;
  std::map<std::string, std::deque<inter::BlobId>> pushes_;  // to each peer, not yet sent
};

}  // namespace causeway::wan_sim
