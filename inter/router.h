// Which way a mesh pushes blobs: directly, or through a region that has the better links. Every
// region measures its own links and reports them to its peers. Pure. Internal to inter.
//
// A wrong choice costs time, never the blob: whoever misses it fetches it from any holder.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "inter/frame_body.h"
#include "inter/topology.h"

namespace causeway::inter {

enum class Routing { automatic, direct };

class Router {
 public:
  Router(std::string self, Routing routing) : self_(std::move(self)), routing_(routing) {}

  void on_measured(const std::string& peer, std::chrono::microseconds round_trip,
                   double bytes_per_s);
  void on_report(const std::string& from, const LinkReport& report);
  void on_peer_down(const std::string& peer);  // nothing goes through it any more
  LinkReport report() const;

  // Through whom a blob of that size goes to `to`; empty: directly. `reachable`: `to` is up. Counts
  // its calls: now and then a blob goes the way that is not the best, to see whether it still is
  // not.
  std::string via(const std::string& to, std::uint64_t bytes, bool reachable);

  // `id` is to go on to `to` as soon as it is here.
  void pass_later(const BlobId& id, const std::string& to);
  std::vector<std::string> take_passes(const BlobId& id);

 private:
  std::string self_;
  Routing routing_;
  LinkMatrix links_;
  std::map<std::string, std::string> chosen_;  // the last answer for each peer
  std::map<std::string, unsigned> relayed_;    // blobs since one last went directly
  std::map<BlobId, std::set<std::string>> passes_;
};

}  // namespace causeway::inter
