// Which way a mesh pushes blobs: directly, through a region that has the better links, or round a
// ring. Every region measures its own links and reports them to its peers, so each can choose for
// its own blobs: it asks the regions on the way to pass them on. Pure.
//
// A wrong choice costs time, never the blob: whoever misses it fetches it from any holder.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "inter/frame/frame_body.h"
#include "inter/route/topology.h"

namespace causeway::inter {

class Router {
 public:
  // `forced`: this shape whatever was measured.
  Router(std::string self, std::optional<Shape> forced) : self_(std::move(self)), forced_(forced) {}

  // Of a link without a rate it may be known what it carries at least: enough to pass blobs on over
  // it, but not to go another way because of it.
  void on_measured(const std::string& peer, std::chrono::microseconds round_trip,
                   double bytes_per_s, double at_least_bytes_per_s = 0);
  void on_report(const std::string& from, const LinkReport& report);
  void on_peer_down(const std::string& peer);  // nothing goes through it any more
  LinkReport report() const;

  // The hops by which a blob gets to `to`, ours first: {{self, to}} is the direct way. `up`: the
  // peers that are; every region on the way is one of them. Now and then a blob goes directly to
  // all, to see whether that is still the worse way.
  std::vector<Hop> way(const BlobId& id, const std::string& to, const std::set<std::string>& up);

  // Whether hop.from is still to be asked to pass this blob on. Once.
  bool ask(const BlobId& id, const Hop& hop);

  // `id` is to go on to `to` as soon as it is here.
  void pass_later(const BlobId& id, const std::string& to);
  std::vector<std::string> take_passes(const BlobId& id);
  bool passes_on(const BlobId& id) const { return passes_.contains(id); }

 private:
  // What was found for these regions and links, until they change.
  struct Ring {
    std::set<std::string> members;
    std::uint64_t bytes = 0;
    LinkMatrix links;
    Plan plan;
    bool chosen = false;
  };

  // What was asked last, until a link changes.
  struct Answer {
    std::set<std::string> members;
    std::uint64_t bytes = 0;
    bool ring = false;
  };

  bool tries_directly(const BlobId& id, const std::string& to, const std::set<std::string>& up);
  bool is_measured(const std::string& to) const;
  double seconds(const std::vector<Hop>& way, std::uint64_t bytes) const;
  bool ring_chosen(std::uint64_t bytes, std::set<std::string> members);
  bool find_ring(std::uint64_t bytes, const std::set<std::string>& members);
  LinkMatrix links_among(const std::set<std::string>& members) const;
  void plan_ring_of(std::set<std::string> members, std::uint64_t bytes, LinkMatrix links);
  std::vector<Hop> along_ring(const std::string& to) const;
  std::string relay(const std::string& to, std::uint64_t bytes,
                    const std::set<std::string>& up) const;
  void note(const std::string& to, const std::vector<Hop>& way, std::uint64_t bytes);

  std::string self_;
  std::optional<Shape> forced_;
  LinkMatrix links_;
  std::set<std::string> bounded_;  // peers: our links to them carry at least so much
  Ring ring_;
  std::optional<Answer> answer_;
  BlobId last_blob_;
  unsigned blobs_ = 0;
  std::map<std::string, std::vector<Hop>> noted_;  // the last way to each peer that was logged
  std::map<BlobId, std::set<Hop>> asked_;
  std::map<BlobId, std::set<std::string>> passes_;
};

}  // namespace causeway::inter
