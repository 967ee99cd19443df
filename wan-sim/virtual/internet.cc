#include "wan-sim/virtual/internet.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {
namespace {

// What a control message costs beside itself: our frame, and a TLS 1.3 record.
constexpr std::uint64_t kMessageOverheadBytes = 16 + 22;
// Bulk data goes in full records of 16 KiB.
constexpr std::uint64_t kRecordBytes = 16 * 1024, kRecordOverheadBytes = 22;
// TCP, TLS 1.3 and our greeting.
constexpr int kRoundTripsToUp = 3;
// From one attempt to the next: twice as long each time.
constexpr std::chrono::milliseconds kRedialMin{100}, kRedialMax{5'000};

std::uint64_t on_the_wire(std::uint64_t blob_bytes) {
  return blob_bytes + (blob_bytes + kRecordBytes - 1) / kRecordBytes * kRecordOverheadBytes;
}

Pair unordered(const std::string& a, const std::string& b) {
  return std::minmax(a, b);
}

}  // namespace

Internet::Internet(VirtualWan& wan, InternetOptions options) : wan_(wan), options_(options) {
  for (const Host& host : wan_.scenario().hosts)
    host_bytes_per_s_[host.name] = host.rate_bytes_per_s;
  wan_.observe_actions([this](const Action& action) { on_action(action); });
}

Internet::~Internet() {
  assert(sites_.empty());
}

std::uint64_t Internet::sent_bytes(const std::string& region) const {
  const auto found = sent_bytes_.find(region);
  return found == sent_bytes_.end() ? 0 : found->second;
}

// What a link has of its ends' rates while all regions transfer at once, as they do in a round.
double Internet::fair_share(const std::string& from, const std::string& to) const {
  const double peers = std::max(1.0, double(sites_.size()) - 1);
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& end : {from, to}) {
    const auto host = host_bytes_per_s_.find(end);
    if (host != host_bytes_per_s_.end()) least = std::min(least, host->second / peers);
  }
  return least;
}

void Internet::settle(const std::string& region) {
  const auto site = sites_.find(region);
  if (site == sites_.end()) return;
  for (const std::string& peer : site->second->up_) {
    if (Session* session = this->session(region, peer)) settle(session->from(peer));
  }
}

void Internet::settle(const Stream& stream) {
  if (!stream.pushing.empty()) wan_.network().settle(stream.data, wan_.now());
}

std::unique_ptr<Internet::Site> Internet::start(const std::string& region, std::string greeting,
                                                PhantomSpool& spool, inter::MeshHandler& handler) {
  assert(!sites_.contains(region));
  std::unique_ptr<Site> site(new Site(*this, region, std::move(greeting), spool, handler));
  sites_[region] = site.get();
  wan_.log("start " + region);
  for (const auto& [peer, other] : sites_) {
    if (peer != region) dial(region, peer);
  }
  return site;
}

void Internet::stop(const std::string& region) {
  sites_.erase(region);
  wan_.log("stop " + region);
  std::vector<std::string> peers;
  for (const auto& [pair, open] : sessions_) {
    if (pair.first == region) peers.push_back(pair.second);
    if (pair.second == region) peers.push_back(pair.first);
  }
  for (const std::string& peer : peers) lose(region, peer, region, "closed by the peer");
}

// ---- Connecting ----

void Internet::dial(const std::string& a, const std::string& b) {
  const Pair pair = unordered(a, b);
  if (sessions_.contains(pair) || !sites_.contains(a) || !sites_.contains(b)) return;
  const std::uint64_t attempt = ++dialled_[pair];
  const Pair back{pair.second, pair.first};
  const std::uint64_t key = mix(mix(key_of(pair.first), key_of(pair.second)), attempt);
  const auto arrives = wan_.network().traverse(pair, wan_.now(), key);
  const auto answered =
      arrives ? wan_.network().traverse(back, *arrives, mix(key, 1)) : std::nullopt;
  if (!answered || wan_.refused(pair)) return dial_later(a, b);
  const Time round_trip = *answered - wan_.now();
  wan_.after(kRoundTripsToUp * round_trip, [this, pair, attempt] {
    if (dialled_[pair] == attempt) establish(pair.first, pair.second);
  });
}

void Internet::dial_later(const std::string& a, const std::string& b) {
  const Pair pair = unordered(a, b);
  auto& wait = redial_.try_emplace(pair, kRedialMin).first->second;
  const std::uint64_t attempt = ++dialled_[pair];
  wan_.after(wait, [this, pair, attempt] {
    if (dialled_[pair] == attempt) dial(pair.first, pair.second);
  });
  wait = std::min(2 * wait, kRedialMax);
}

bool Internet::accepted(const std::string& self, const std::string& peer) {
  Site& site = *sites_.at(self);
  const std::string reason = site.handler_.judge_greeting(peer, sites_.at(peer)->greeting_);
  if (reason.empty()) return true;
  wan_.log("refused " + self + " " + peer + " " + reason);
  sites_.at(peer)->handler_.on_refused_by(self, {inter::Errc::refused, reason});
  return false;
}

void Internet::establish(const std::string& a, const std::string& b) {
  if (!sites_.contains(a) || !sites_.contains(b)) return;
  const bool holed = silent_since_.contains({a, b}) || silent_since_.contains({b, a});
  if (holed || wan_.refused({a, b}) || !accepted(a, b) || !accepted(b, a)) return dial_later(a, b);
  redial_.erase({a, b});
  auto made = std::make_unique<Session>(Session{{a, b}, {b, a}});
  Session& session = *made;
  sessions_[{a, b}] = std::move(made);
  open_streams(session);
  wan_.log("up " + a + " " + b);
  for (const auto& [self, peer] : {Pair{a, b}, Pair{b, a}}) {
    const auto site = sites_.find(self);
    if (site == sites_.end()) continue;  // ended by what the other one did
    site->second->up_.insert(peer);
    site->second->links_known_ = false;
    site->second->handler_.on_peer_up(peer, {});
  }
  if (auto* still = this->session(a, b)) {
    push_next(still->there);
    push_next(still->back);
  }
}

void Internet::open_streams(Session& session) {
  const Pair dialled{session.there.from, session.there.to};
  const std::uint64_t control = wan_.count_connection(dialled);
  const std::uint64_t data = wan_.count_connection(dialled);
  for (Stream* stream : {&session.there, &session.back}) {
    const bool forward = stream == &session.there;
    stream->control = wan_.network().open(
        stream->from, stream->to, control, forward,
        [this, stream](std::uint64_t bytes) { on_message_bytes(*stream, bytes); });
    stream->data =
        wan_.network().open(stream->from, stream->to, data, forward,
                            [this, stream](std::uint64_t bytes) { on_blob_bytes(*stream, bytes); });
  }
}

Internet::Session* Internet::session(const std::string& a, const std::string& b) {
  const auto found = sessions_.find(unordered(a, b));
  return found == sessions_.end() ? nullptr : found->second.get();
}

// ---- Losing ----

// The end at `first` is gone now; the other one hears of it, or of nothing any more.
void Internet::lose(const std::string& a, const std::string& b, const std::string& first,
                    const std::string& reason) {
  const auto found = sessions_.find(unordered(a, b));
  if (found == sessions_.end()) return;
  for (const Stream* stream : {&found->second->there, &found->second->back}) {
    settle(*stream);  // what has arrived stays
    wan_.network().close(stream->control);
    wan_.network().close(stream->data);
  }
  // A handler that is running may hold the session's streams: they go when it has returned.
  wan_.at(wan_.now(), [kept = std::shared_ptr<Session>(std::move(found->second))] {});
  sessions_.erase(found);
  ++dialled_[unordered(a, b)];
  wan_.log("lost " + a + " " + b + " " + reason);
  const std::string other = first == a ? b : a;
  const Pair way{first, other};
  Time hears = wan_.network().profile(way).delay;
  if (const auto silent = silent_since_.find(way); silent != silent_since_.end()) {
    hears = std::max(Time{0}, silent->second + Time{options_.idle_deadline} - wan_.now());
  }
  tell_down(first, other, reason);
  wan_.after(hears, [this, first, other, reason] {
    tell_down(other, first, reason);
    dial_later(first, other);
  });
}

void Internet::tell_down(const std::string& self, const std::string& peer,
                         const std::string& reason) {
  wan_.at(wan_.now(), [this, self, peer, reason] {
    const auto site = sites_.find(self);
    if (site == sites_.end() || site->second->up_.erase(peer) == 0) return;
    site->second->router_.on_peer_down(peer);
    site->second->handler_.on_peer_down(peer, reason);
  });
}

void Internet::on_action(const Action& action) {
  for (const auto& [region, site] : sites_) site->links_known_ = false;
  const auto* fault = std::get_if<Fault>(&action.what);
  const auto* heal = std::get_if<Heal>(&action.what);
  for (const Pair& pair : action.links) {
    if (fault && fault->kind == FaultKind::reset) {
      lose(pair.first, pair.second, pair.first, "reset");
    } else if (fault && fault->kind == FaultKind::black_hole) {
      if (silent_since_.emplace(pair, wan_.now()).second) watch_silence(pair);
    } else if (heal && (!heal->kind || heal->kind == FaultKind::black_hole)) {
      silent_since_.erase(pair);
    }
  }
}

// The receiving end notices that not even heartbeats come.
void Internet::watch_silence(const Pair& pair) {
  wan_.after(options_.idle_deadline, [this, pair, since = wan_.now()] {
    const auto silent = silent_since_.find(pair);
    if (silent == silent_since_.end() || silent->second != since) return;
    lose(pair.first, pair.second, pair.second, "nothing heard until the idle deadline");
  });
}

// ---- Bytes ----

void Internet::on_message_bytes(Stream& stream, std::uint64_t bytes) {
  while (bytes > 0) {
    auto& first = stream.messages.front();
    const std::uint64_t part = std::min(bytes, first.bytes);
    bytes -= part;
    first.bytes -= part;
    if (first.bytes > 0) return;
    const auto done = std::move(first);
    stream.messages.pop_front();
    const auto site = sites_.find(stream.to);
    if (site == sites_.end()) return;
    if (done.blob) {
      Site& asked = *site->second;
      if (done.forgone)
        std::erase(asked.pushes_[stream.from], *done.blob);
      else
        done.pass_to.empty() ? asked.push_directly(stream.from, *done.blob)
                             : asked.pass_on(*done.blob, done.pass_to);
      continue;
    }
    wan_.log(fmt::format("message {} {} {}", stream.from, stream.to, done.message.size()));
    // Whatever it does to the session, the stream lives until the next event.
    site->second->handler_.on_message(stream.from, done.message);
    if (!session(stream.from, stream.to)) return;
  }
}

// A sender does not wait until what it sent has arrived: as much is on its way as the link holds.
bool Internet::is_full(const Stream& stream) const {
  if (stream.pushing.empty()) return false;
  const LinkProfile& link = wan_.network().profile({stream.from, stream.to});
  double bytes = 0;
  for (const Stream::Pushing& one : stream.pushing) bytes += static_cast<double>(one.wire_bytes);
  return bytes >= link.rate_bytes_per_s * std::chrono::duration<double>(link.delay).count();
}

void Internet::push_next(Stream& stream) {
  const auto from = sites_.find(stream.from), to = sites_.find(stream.to);
  if (from == sites_.end() || to == sites_.end()) return;
  auto& queue = from->second->pushes_[stream.to];
  while (!queue.empty() && !is_full(stream)) {
    const inter::BlobId id = queue.front();
    queue.pop_front();
    const std::uint64_t there = to->second->spool_.received_bytes(id);
    const bool comes =
        std::ranges::find(stream.pushing, id, &Stream::Pushing::id) != stream.pushing.end();
    if (comes || !from->second->spool_.has(id) || there >= id.size_bytes) continue;
    const std::uint64_t left = id.size_bytes - there;
    stream.pushing.push_back({id, on_the_wire(left), left});
    sent_bytes_[stream.from] += stream.pushing.back().wire_bytes;
    wan_.network().offer(stream.data, stream.pushing.back().wire_bytes, wan_.now());
  }
}

void Internet::on_blob_bytes(Stream& stream, std::uint64_t bytes) {
  const std::string from = stream.from, to = stream.to;
  while (bytes > 0) {
    auto& pushing = stream.pushing.front();
    const std::uint64_t part = std::min(bytes, pushing.wire_bytes);
    bytes -= part;
    pushing.wire_bytes -= part;
    const bool whole = pushing.wire_bytes == 0;
    // Nothing of it is whole before the last byte, though the records' heads are a part of these.
    const std::uint64_t fresh =
        whole ? pushing.blob_bytes
              : std::min(part, std::max<std::uint64_t>(pushing.blob_bytes, 1) - 1);
    pushing.blob_bytes -= fresh;
    const inter::BlobId id = pushing.id;
    if (whole) stream.pushing.pop_front();
    const auto site = sites_.find(to);
    if (site == sites_.end()) return;
    const bool complete = site->second->spool_.append(id, fresh);
    if (whole) push_next(stream);
    if (!complete) continue;
    wan_.log("blob " + from + " " + to + " " + inter::to_string(id));
    // Whatever it does to the session, the stream lives until the next event.
    site->second->on_completed(from, id);
    if (!session(from, to)) return;
  }
}

void Internet::ask_to_pass(const std::string& asking, const inter::Hop& hop,
                           const inter::BlobId& id) {
  Session* session = this->session(asking, hop.from);
  if (session) send_control(session->from(asking), {.blob = id, .pass_to = hop.to});
}

void Internet::send_control(Stream& stream, Control control) {
  const std::size_t body = control.blob ? sizeof(inter::BlobId) : control.message.size();
  const std::uint64_t bytes = body + control.pass_to.size() + kMessageOverheadBytes;
  control.bytes = bytes;
  sent_bytes_[stream.from] += bytes;
  stream.messages.push_back(std::move(control));
  wan_.network().offer(stream.control, bytes, wan_.now());
}

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
    LinkProfile link = internet_.wan_.network().profile({from, to});
    link.rate_bytes_per_s = std::min(link.rate_bytes_per_s, internet_.fair_share(from, to));
    return link;
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
  if (std::ranges::find(arriving, id, &Stream::Pushing::id) != arriving.end()) return;
  internet_.send_control(session->from(region_), {.blob = id});
}

void Internet::Site::forgo_blob(const std::string& peer, const inter::BlobId& id) {
  Session* session = internet_.session(region_, peer);
  if (session && is_up(peer))
    internet_.send_control(session->from(region_), {.blob = id, .forgone = true});
}

}  // namespace causeway::wan_sim
