// Cluster: what connects the regions.
#include <algorithm>
#include <cassert>
#include <system_error>
#include <utility>

#include "tests/diloco/cluster/cluster_parts.h"

namespace causeway::diloco::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// Messages on their way from one region to another; one that was paused speaks of all at once.
constexpr std::size_t kQueuedMax = 100, kQueuedPerRegion = 20;

}  // namespace

Cluster::Link& Cluster::link(const std::string& a, const std::string& b) {
  assert(a != b);
  return links_[std::minmax(a, b)];
}

void Cluster::connect(const std::string& a, const std::string& b) {
  Link& state = link(a, b);
  if (state.established || state.connecting || state.cut || !alive(a) || !alive(b)) return;
  state.connecting = true;
  at(now_ + random_time(milliseconds{10}, milliseconds{1500}), [this, a, b] {
    Link& later = link(a, b);
    later.connecting = false;
    if (later.established || later.cut || !alive(a) || !alive(b)) return;
    later.established = true;
    later.via.clear();
    if (real_) real_->connect(a, b);
    meet(a, b);
    seek_detours();
  });
}

// Two regions can talk, and greet each other.
void Cluster::meet(const std::string& a, const std::string& b) {
  Link& state = link(a, b);
  const std::uint64_t epoch = ++state.epoch;
  const Greeting greetings[] = {greeting(a), greeting(b)};
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    const bool missed_the_loss = std::exchange(state.up[self], true);
    if (missed_the_loss) deliver(self, PeerDown{peer});
    const Greeting& ours = greetings[self == a ? 0 : 1];
    const Judgement theirs = judge(ours, peer, diloco::serialize(greetings[self == a ? 1 : 0]));
    if (!theirs.reason.empty()) throw Violation(self + " refuses " + peer + ": " + theirs.reason);
    Node& node = nodes_.at(self);
    if (!alive(self) || !honest(self) || !node.disk.run_id.empty()) continue;
    if (theirs.peers_run_id.empty()) continue;
    node.disk.run_id = theirs.peers_run_id;
    deliver(self, RunIdLearned{theirs.peers_run_id});
  }
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    if (state.epoch == epoch) deliver(self, PeerUp{peer, nodes_.at(peer).incarnation, state.via});
  }
}

Greeting Cluster::greeting(const std::string& region) const {
  const Node& node = nodes_.at(region);
  const bool stale = options_.planted == PlantedBug::stale_greeting;
  return {.run_id = stale ? node.run_id_at_start : node.disk.run_id,
          .region = region,
          .incarnation = node.incarnation,
          .shared_config = {}};
}

// ---- By way of a third region ----

bool Cluster::carries(const std::string& from, const std::string& to) const {
  const auto found = links_.find(std::minmax(from, to));
  return found != links_.end() && found->second.established &&
         !found->second.deaf_to.contains(from);
}

std::vector<std::string> Cluster::carriers(const std::string& a, const std::string& b) const {
  std::vector<std::string> those;
  for (const std::string& region : options_.regions) {
    if (region == a || region == b) continue;
    const bool both = carries(a, region) && carries(region, a) && carries(b, region);
    if (both && carries(region, b)) those.push_back(region);
  }
  return those;
}

void Cluster::seek_detours() {
  if (!options_.detours || options_.planted == PlantedBug::no_detours) return;
  for (const std::string& a : options_.regions) {
    for (const std::string& b : options_.regions) {
      if (a < b && honest(a) && honest(b)) seek_detour(a, b);
    }
  }
}

void Cluster::seek_detour(const std::string& a, const std::string& b) {
  Link& state = link(a, b);
  const bool wanted = !state.established && state.via.empty() && !state.seeking;
  if (!wanted || !alive(a) || !alive(b) || carriers(a, b).empty()) return;
  state.seeking = true;
  at(now_ + random_time(seconds{1}, seconds{3}), [this, a, b] {
    Link& later = link(a, b);
    later.seeking = false;
    const std::vector<std::string> those = carriers(a, b);
    if (later.established || !alive(a) || !alive(b) || those.empty()) return;
    later.via = those[random_() % those.size()];
    meet(a, b);
  });
}

// A link is gone that carried what others say to each other.
void Cluster::drop_detours_over(const std::string& a, const std::string& b) {
  for (auto& [ends, state] : links_) {
    const auto& [x, y] = ends;
    const bool over =
        (state.via == a && (x == b || y == b)) || (state.via == b && (x == a || y == a));
    if (over) lose(x, y);
  }
}

// ---- Loss ----

// Each end notices in its own time; what was under way is lost.
void Cluster::disconnect(const std::string& a, const std::string& b) {
  Link& state = link(a, b);
  if (!state.established) return;
  state.established = false;
  if (real_) real_->disconnect(a, b);
  lose(a, b);
  drop_detours_over(a, b);
}

void Cluster::lose(const std::string& a, const std::string& b) {
  Link& state = link(a, b);
  state.via.clear();
  const std::uint64_t epoch = ++state.epoch;
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    if (!alive(self)) {
      state.up[self] = false;
      continue;
    }
    at(now_ + random_time(milliseconds{1}, seconds{4}), [this, self, peer, epoch] {
      Link& later = link(self, peer);
      if (later.epoch != epoch || !later.up[self]) return;
      later.up[self] = false;
      deliver(self, PeerDown{peer});
      connect(self, peer);
      seek_detours();
    });
  }
}

void Cluster::drop_links(const std::string& region) {
  for (const std::string& other : options_.regions) {
    if (other == region) continue;
    disconnect(region, other);
    if (!link(region, other).via.empty()) lose(region, other);
    link(region, other).up[region] = false;
  }
}

void Cluster::cut(const std::string& a, const std::string& b) {
  link(a, b).cut = true;
  disconnect(a, b);
}

void Cluster::sever(const std::string& a, const std::string& b) {
  link(a, b).severed = true;
  cut(a, b);
}

// The idle deadline finds it.
void Cluster::cut_one_way(const std::string& from, const std::string& to) {
  Link& state = link(from, to);
  state.deaf_to.insert(from);
  at(now_ + seconds{10}, [this, from, to, epoch = state.epoch] {
    Link& later = link(from, to);
    if (later.epoch != epoch || !later.deaf_to.contains(from)) return;
    later.cut = true;
    disconnect(from, to);
  });
}

void Cluster::send(const std::string& from, const std::string& to, const Message& message) {
  Link& state = link(from, to);
  Time sent = now_;
  if (state.established) {
    if (state.deaf_to.contains(from)) return;
  } else {
    const std::string& via = state.via;
    if (via.empty() || !carries(from, via) || !carries(via, to)) return;
    sent = std::max(sent, nodes_.at(via).paused_until) +
           random_time(milliseconds{5}, milliseconds{300});
  }
  Time& last = state.last_arrival[to];
  last = std::max(last, sent + random_time(milliseconds{5}, milliseconds{300}));
  // Through the wire format, as the real thing.
  const auto arrive = [this, from, to, epoch = state.epoch, bytes = serialize(message)] {
    if (link(from, to).epoch != epoch) return;
    if (!honest(from)) return deliver_lie(to, bytes);
    try {
      deliver(to, PeerSaid{from, parse_message(bytes)});
    } catch (const std::system_error& error) {
      throw Violation(from + " says what cannot be parsed: " + error.what());
    }
  };
  if (!honest(to)) overhear(message);
  const std::size_t most = std::max(kQueuedMax, kQueuedPerRegion * nodes_.size());
  if (++state.queued[to] > most && honest(from))
    throw Violation(from + " floods " + to + " with messages");
  at(last, [this, from, to, arrive] {
    --link(from, to).queued[to];
    arrive();
  });
  if (options_.replayed > 0 && std::bernoulli_distribution(options_.replayed)(random_)) {
    at(last + random_time(seconds{1}, seconds{30}), arrive);
  }
}

void Cluster::transfer(const std::string& from, const std::string& to, const inter::BlobId& blob,
                       std::uint64_t offset) {
  const Link& state = link(from, to);
  if (!state.established || state.deaf_to.contains(from)) return;
  at(now_ + nodes_.at(from).per_chunk + random_time(milliseconds{20}, milliseconds{500}),
     [this, from, to, blob, offset, epoch = state.epoch] {
       arrive(from, to, blob, offset, epoch);
     });
}

void Cluster::arrive(const std::string& from, const std::string& to, const inter::BlobId& blob,
                     std::uint64_t offset, std::uint64_t epoch) {
  Node& receiver = nodes_.at(to);
  const Time until = receiver.paused_until;  // a process that is paused stores nothing
  if (now_ < until) {
    return at(until,
              [this, from, to, blob, offset, epoch] { arrive(from, to, blob, offset, epoch); });
  }
  const bool held = alive(from) && nodes_.at(from).disk.blobs.contains(blob);
  if (link(from, to).epoch != epoch || !receiver.protocol) return;
  if (!held) return alive(from) && honest(from) ? deliver(to, BlobAbsent{from, blob}) : void();
  if (receiver.disk.blobs.contains(blob)) return;
  if (!fits(to, blob)) return;
  std::uint64_t& partial = receiver.partial[blob];
  const std::uint64_t end = std::min(offset + kChunkBytes, blob.size_bytes);
  if (offset > partial) return;
  nodes_.at(from).sent_bytes += end - offset;
  partial = std::max(partial, end);
  if (nodes_.at(from).damaged.contains(blob)) receiver.spoilt.insert(blob);
  const auto wanted = receiver.protocol->wanted();
  const bool is_wanted = std::ranges::find(wanted, blob) != wanted.end();
  const bool all = partial == blob.size_bytes;
  if (is_wanted) deliver(to, BlobProgress{blob, partial});  // all of them before they are checked
  if (!all) return transfer(from, to, blob, end);
  if (!receiver.protocol || receiver.disk.blobs.contains(blob)) return;
  if (receiver.spoilt.contains(blob)) return refuse_spoilt(from, to, blob);
  store(to, blob);
  deliver(to, BlobArrived{blob});
}

void Cluster::store(const std::string& region, const inter::BlobId& blob) {
  Node& node = nodes_.at(region);
  node.partial.erase(blob);
  node.spoilt.erase(blob);
  node.damaged.erase(blob);
  node.disk.blobs.insert(blob);
  node.stored_at[blob] = node.protocol ? node.protocol->version() : 0;
  stored_[blob].insert(region);
}

inter::BlobId Cluster::keep(const std::string& region, const std::string& content,
                            std::uint64_t size) {
  const inter::BlobId blob =
      real_ ? real_->put(region, content, kRealBytes * size) : make_blob(content, size);
  store(region, blob);
  return blob;
}

// ---- Real links ----

void Cluster::begin_real_links() {
  ClusterLinks::Host host;
  host.now = [this] { return now_; };
  host.at = [this](Time time, std::function<void()> action) { at(time, std::move(action)); };
  host.paused_until = [this](const std::string& region) { return nodes_.at(region).paused_until; };
  host.per_chunk = [this](const std::string& region) { return nodes_.at(region).per_chunk; };
  host.deaf = [this](const std::string& from, const std::string& to) {
    return link(from, to).deaf_to.contains(from);
  };
  host.on_blob = [this](const std::string& region, const inter::BlobId& blob) {
    store(region, blob);
    deliver(region, BlobArrived{blob});
  };
  host.on_progress = [this](const std::string& region, const inter::BlobId& blob,
                            std::uint64_t bytes) {
    const Node& node = nodes_.at(region);
    if (!node.protocol || bytes == blob.size_bytes) return;
    const auto wanted = node.protocol->wanted();
    if (std::ranges::find(wanted, blob) != wanted.end()) deliver(region, BlobProgress{blob, bytes});
  };
  real_ = std::make_unique<ClusterLinks>(std::move(host), options_.seed,
                                         kRealBytes * options_.spool_bytes);
}

// A process that starts has what is on its disk, which is at least what it had.
void Cluster::read_disk(const std::string& region) {
  std::set<inter::BlobId>& blobs = nodes_.at(region).disk.blobs;
  const std::set<inter::BlobId> found = real_->start(region);
  for (const inter::BlobId& blob : blobs) {
    if (!found.contains(blob)) throw Violation(region + " lost a blob that was complete");
  }
  blobs = found;
  for (const inter::BlobId& blob : found) stored_[blob].insert(region);
}

}  // namespace causeway::diloco::testing
