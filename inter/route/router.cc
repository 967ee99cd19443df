#include "inter/route/router.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

namespace causeway::inter {
namespace {

constexpr double kWorthwhile = 0.7;   // of the direct way's time
constexpr unsigned kDirectEvery = 8;  // blobs
// More rarely where it takes many times as long, or tries would be most of what all blobs take.
constexpr double kRarerMax = 8;
constexpr std::size_t kBlobsMax = 4096;
constexpr double kSimilar = 1.25;             // not worth another plan
constexpr LinkCost kUnknown{0.1, 1'000'000};  // of a forced ring's links

bool similar(double one, double other) {
  return std::max(one, other) <= kSimilar * std::min(one, other);
}

bool similar(const LinkMatrix& one, const LinkMatrix& other) {
  return std::ranges::equal(one, other, [](const auto& left, const auto& right) {
    return left.first == right.first && similar(left.second.bytes_per_s, right.second.bytes_per_s);
  });
}

std::string describe(const std::vector<Hop>& way) {
  std::string text = way.front().from;
  for (const Hop& hop : way) text += " > " + hop.to;
  return text;
}

// All that leave `from`: they stand together.
auto links_of(auto& links, const std::string& from) {
  const auto first = links.lower_bound({from, ""});
  const auto leaves_another = [&](const auto& link) { return link.first.first != from; };
  return std::pair(first, std::find_if(first, links.end(), leaves_another));
}

template <typename Map>
void bound(Map& map) {
  if (map.size() >= kBlobsMax) map.clear();  // they are fetched instead, or asked for twice
}

}  // namespace

void Router::on_measured(const std::string& peer, std::chrono::microseconds round_trip,
                         double bytes_per_s, double at_least_bytes_per_s) {
  const double known = bytes_per_s > 0 ? bytes_per_s : at_least_bytes_per_s;
  if (known <= 0) return;
  answer_.reset();
  links_[{self_, peer}] = {std::chrono::duration<double>(round_trip).count() / 2, known};
  bytes_per_s > 0 ? void(bounded_.erase(peer)) : void(bounded_.insert(peer));
}

bool Router::is_measured(const std::string& to) const {
  return links_.contains({self_, to}) && !bounded_.contains(to);
}

void Router::on_report(const std::string& from, const LinkReport& report) {
  answer_.reset();
  const auto [first, last] = links_of(links_, from);
  links_.erase(first, last);
  for (const LinkReport::Link& link : report.links) {
    links_[{from, link.to}] = {1e-6 * static_cast<double>(link.latency_us),
                               static_cast<double>(link.bytes_per_s)};
  }
}

void Router::on_peer_down(const std::string& peer) {
  answer_.reset();
  bounded_.erase(peer);
  std::erase_if(links_, [&](const auto& link) {
    return link.first.first == peer || link.first.second == peer;
  });
  for (auto& [id, hops] : asked_)
    std::erase_if(hops, [&](const Hop& hop) { return hop.from == peer; });
}

LinkReport Router::report() const {
  LinkReport report;
  const auto [first, last] = links_of(links_, self_);
  for (auto link = first; link != last && report.links.size() < kReportedLinksMax; ++link) {
    const auto& [ends, cost] = *link;
    report.links.push_back({ends.second, static_cast<std::uint64_t>(1e6 * cost.latency_s),
                            static_cast<std::uint64_t>(cost.bytes_per_s)});
  }
  return report;
}

std::vector<Hop> Router::way(const BlobId& id, const std::string& to,
                             const std::set<std::string>& up) {
  std::vector<Hop> way{{self_, to}};
  const bool reachable = up.contains(to);
  if (reachable && !forced_ && tries_directly(id, to, up)) return way;
  std::set<std::string> members = up;
  members.insert(self_);
  if (reachable && ring_chosen(id.size_bytes, std::move(members))) {
    way = along_ring(to);
  } else if (const std::string via = relay(to, id.size_bytes, up); !via.empty()) {
    way = {{self_, via}, {via, to}};
  }
  note(to, way, id.size_bytes);
  return way;
}

bool Router::tries_directly(const BlobId& id, const std::string& to,
                            const std::set<std::string>& up) {
  if (id != last_blob_) {
    last_blob_ = id;
    ++blobs_;
  }
  if (blobs_ % kDirectEvery != 0) return false;
  const std::string via = relay(to, id.size_bytes, up);
  if (via.empty()) return true;
  const double times =
      seconds({{self_, to}}, id.size_bytes) / seconds({{self_, via}, {via, to}}, id.size_bytes);
  const auto rarer = static_cast<unsigned>(std::clamp(times / kDirectEvery, 1.0, kRarerMax));
  return blobs_ / kDirectEvery % rarer == 0;
}

double Router::seconds(const std::vector<Hop>& way, std::uint64_t bytes) const {
  double seconds = 0;
  for (const Hop& hop : way) {
    const auto link = links_.find({hop.from, hop.to});
    const LinkCost& cost = link == links_.end() ? kUnknown : link->second;
    seconds += cost.latency_s + static_cast<double>(bytes) / cost.bytes_per_s;
  }
  return seconds;
}

// A direct link that was never measured is used, so that it is. Of one that is known to carry at
// least so much nothing says that another way is better.
std::string Router::relay(const std::string& to, std::uint64_t bytes,
                          const std::set<std::string>& up) const {
  if (forced_ == Shape::direct || forced_ == Shape::ring || (up.contains(to) && !is_measured(to)))
    return "";
  const double share = forced_ == Shape::relay ? 1 : kWorthwhile;
  const std::string via = find_relay(links_, self_, to, static_cast<double>(bytes), share);
  return up.contains(via) ? via : "";
}

// A blob goes to each peer in turn, and the answer for the first of them holds for all.
bool Router::ring_chosen(std::uint64_t bytes, std::set<std::string> members) {
  if (!answer_ || answer_->bytes != bytes || answer_->members != members)
    answer_ = {members, bytes, find_ring(bytes, members)};
  return answer_->ring;
}

// Unless it is forced, a ring needs every link between its members measured: what is not known is
// not known to be worse.
bool Router::find_ring(std::uint64_t bytes, const std::set<std::string>& members) {
  if (forced_ && forced_ != Shape::ring) return false;
  if (members.size() < 3 || (!forced_ && !bounded_.empty())) return false;
  LinkMatrix links = links_among(members);
  const std::size_t pairs = members.size() * (members.size() - 1);
  if (!forced_ && links.size() < pairs) return false;
  if (members != ring_.members || !similar(links, ring_.links) ||
      !similar(static_cast<double>(bytes), static_cast<double>(ring_.bytes)))
    plan_ring_of(members, bytes, std::move(links));
  return ring_.chosen;
}

LinkMatrix Router::links_among(const std::set<std::string>& members) const {
  LinkMatrix links;
  for (const std::string& from : members) {
    for (const std::string& to : members) {
      const auto known = links_.find({from, to});
      if (from != to && (forced_ || known != links_.end()))
        links[{from, to}] = known != links_.end() ? known->second : kUnknown;
    }
  }
  return links;
}

// What the other regions send is taken to be as large.
void Router::plan_ring_of(std::set<std::string> members, std::uint64_t bytes, LinkMatrix links) {
  PlanInput input{links, {}};
  for (const std::string& region : members) input.payload_bytes[region] = bytes;
  Plan plan = plan_ring(input);
  const double other_s = std::min(plan_direct(input).predicted_s, plan_relay(input).predicted_s);
  const bool chosen = forced_ || plan.predicted_s < kWorthwhile * other_s;
  if (chosen && (!ring_.chosen || plan.routes != ring_.plan.routes)) {
    spdlog::info("{}: blobs go round the ring {}: predicted {:.3f} s, otherwise {:.3f} s", self_,
                 describe(plan.routes.at(self_)), plan.predicted_s, other_s);
  }
  ring_ = {std::move(members), bytes, std::move(links), std::move(plan), chosen};
}

std::vector<Hop> Router::along_ring(const std::string& to) const {
  const std::vector<Hop>& all = ring_.plan.routes.at(self_);
  const auto last = std::ranges::find_if(all, [&](const Hop& hop) { return hop.to == to; });
  return {all.begin(), last + 1};
}

void Router::note(const std::string& to, const std::vector<Hop>& way, std::uint64_t bytes) {
  std::vector<Hop>& noted = noted_[to];
  const bool direct = way.size() == 1;
  // Nothing can be predicted of a direct link that was never used.
  if (way == noted || (direct && !is_measured(to))) return;
  noted = way;
  spdlog::info("{}: blobs to {} go {}{}: predicted {:.3f} s for {} bytes", self_, to, describe(way),
               forced_ ? " as configured" : "", seconds(way, bytes), bytes);
}

bool Router::ask(const BlobId& id, const Hop& hop) {
  bound(asked_);
  return asked_[id].insert(hop).second;
}

void Router::pass_later(const BlobId& id, const std::string& to) {
  bound(passes_);
  passes_[id].insert(to);
}

std::vector<std::string> Router::take_passes(const BlobId& id) {
  const auto found = passes_.find(id);
  if (found == passes_.end()) return {};
  std::vector<std::string> regions(found->second.begin(), found->second.end());
  passes_.erase(found);
  return regions;
}

}  // namespace causeway::inter
