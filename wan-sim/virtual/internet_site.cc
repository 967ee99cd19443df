#include "wan-sim/virtual/internet_site.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "wan-sim/virtual/internet.h"

namespace causeway::wan_sim {

Internet::Site::~Site() {
  internet_.stop(region_);
}

void Internet::Site::send(const std::string& peer, std::string message) {
  Session* session = internet_.session(region_, peer);
  if (!session || !is_up(peer)) return;
  internet_.send_control(session->from(region_), {.message = std::move(message)});
}

void Internet::Site::learn_links() {
  if (std::exchange(links_known_, true)) return;
  const auto profile = [this](const std::string& from, const std::string& to) {
    return internet_.wan_.network().profile({from, to});
  };
  for (const std::string& peer : up_) {
    const auto out = profile(region_, peer), back = profile(peer, region_);
    router_.on_measured(
        peer, std::chrono::duration_cast<std::chrono::microseconds>(out.delay + back.delay),
        out.rate_bytes_per_s);
    inter::LinkReport report;
    for (const auto& [to, site] : internet_.sites_) {
      if (to == peer) continue;
      const auto link = profile(peer, to);
      report.links.push_back(
          {to,
           static_cast<std::uint64_t>(
               std::chrono::duration_cast<std::chrono::microseconds>(link.delay).count()),
           static_cast<std::uint64_t>(link.rate_bytes_per_s)});
    }
    router_.on_report(peer, report);
  }
}

void Internet::Site::push_blob(const std::string& peer, const inter::BlobId& id) {
  learn_links();
  const std::vector<inter::Hop> way = router_.way(id, peer, up_);
  push_directly(way.front().to, id);
  for (auto hop = way.begin() + 1; hop != way.end(); ++hop) {
    if (router_.ask(id, *hop)) internet_.ask_to_pass(region_, *hop, id);
  }
}

void Internet::Site::push_directly(const std::string& peer, const inter::BlobId& id) {
  auto& queue = pushes_[peer];
  if (std::ranges::find(queue, id) == queue.end()) queue.push_back(id);
  if (Session* session = internet_.session(region_, peer)) {
    internet_.push_next(session->from(region_));
  }
}

void Internet::Site::pass_on(const inter::BlobId& id, const std::string& to) {
  spool_.has(id) ? push_directly(to, id) : router_.pass_later(id, to);
}

void Internet::Site::on_completed(const std::string& from, const inter::BlobId& id) {
  for (const std::string& region : router_.take_passes(id)) push_directly(region, id);
  handler_.on_blob(from, id);
}

void Internet::Site::fetch_blob(const std::string& peer, const inter::BlobId& id) {
  Session* session = internet_.session(region_, peer);
  if (!session || !is_up(peer) || spool_.has(id)) return;
  const auto& arriving = session->from(peer).pushing;
  if (arriving && arriving->id == id) return;
  internet_.send_control(session->from(region_), {.blob = id});
}

}  // namespace causeway::wan_sim
