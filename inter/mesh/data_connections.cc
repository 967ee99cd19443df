#include "inter/mesh/data_connections.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <spdlog/spdlog.h>

#include "inter/base/async.h"

namespace causeway::inter {
namespace {

constexpr double kUnsentSeconds = 0.03;
constexpr std::uint64_t kBytesOfAConnection = 4U << 20;  // in a burst, before another helps
constexpr double kLossThatKeepsWindowsSmall = 0.0005;    // share of segments
constexpr int kAnswerDeadlinesMax = 32;        // idle deadlines, until a chunk is confirmed
constexpr std::uint64_t kChunksOnCrowded = 2;  // under way: one to confirm, and one behind it
constexpr std::chrono::milliseconds kQuickAnswer{250};  // to a heartbeat
constexpr int kQuickAnswersMin = 3;                     // in a row
constexpr std::chrono::seconds kLateAnswer{1};   // to a heartbeat, behind bulk on a slow path
constexpr std::chrono::seconds kForgettable{5};  // silence
constexpr const char* kAsSilent =
    "it was silent for as long as another connection, which carries nothing any more";
constexpr const char* kNothingLarge =
    ", and hardly any since it was made: large packets may be lost on the way (MTU; `causeway "
    "doctor` tells)";
// Of one connection; never binds, but has the kernel pace by its own estimate, so that CUBIC's slow
// start does not take its bursts for a full queue (tcp_cubic.c, hystart_update).
constexpr std::uint64_t kNoRateLimit = 1'000'000'000'000;

// At this rate.
unsigned unsent_bytes(double rate) {
  if (rate == 0) return kUnsentBytesAtFirst;
  return std::clamp(static_cast<unsigned>(std::min(rate * kUnsentSeconds, 1e9)), kUnsentBytesMin,
                    kUnsentBytesMax);
}

}  // namespace

DataConnections::DataConnections(const MeshOptions& options, const std::string& peer,
                                 const BlobSender& outgoing, LinkMeter& meter, bool restarts)
    : options_(options),
      peer_(peer),
      outgoing_(outgoing),
      meter_(meter),
      restarts_(restarts),
      answer_deadline_(kControlDeadlines * options.idle_deadline) {}

ConnectionNumber DataConnections::add(std::shared_ptr<Connection> connection) {
  DataConnection& added = all_[++begun_];
  added.connection = std::move(connection);
  added.waiting_since = added.unanswered_since = Clock::now();
  pace();
  return begun_;
}

void DataConnections::close(std::error_code code, const std::string& reason) {
  for (const auto& [number, data] : all_) data.connection->close(code, reason);
}

void DataConnections::begin_burst(std::uint64_t bytes, bool first) {
  const std::size_t wanted = connections_for(bytes);
  sharing_ = first ? wanted : std::max(sharing_, wanted);
  pace();
}

// TCP may hold its windows of when the path was free for long after it became slow, so that a
// socket takes any number of chunks at once.
bool DataConnections::may_begin(ConnectionNumber number) const {
  const bool full =
      meter_.is_crowded(Clock::now()) && outgoing_.in_flight(number) >= kChunksOnCrowded;
  return !full && takes_part(number);
}

bool DataConnections::takes_part(ConnectionNumber number) const {
  const std::size_t senders = this->senders();
  return all_.size() <= senders ||
         static_cast<std::size_t>(std::distance(all_.begin(), all_.find(number))) < senders;
}

std::size_t DataConnections::senders() const {
  return std::min(meter_.is_crowded(Clock::now()) ? 1 : sharing_, all_.size());
}

// What waits in a socket cannot go another way any more, so it is little; but enough to keep the
// path busy until we get round to this connection again. The limit on the rate keeps several
// connections, which know nothing of each other, from overflowing the queue together. BBR needs it
// too: a burst of fewer than about ten round trips ends before BBR leaves its startup, in which it
// sends at 2.9 times the rate that it measured. On a crowded path what a socket has taken delays
// whatever is more urgent by seconds.
void DataConnections::pace() {
  if (all_.empty()) return;
  const auto connections = static_cast<double>(senders());
  const bool crowded = meter_.is_crowded(Clock::now());
  const double limit = crowded ? meter_.crowded_pacing_bytes_per_s(answer_)
                               : meter_.pacing_bytes_per_s() / connections;
  const unsigned unsent =
      crowded ? kUnsentBytesCrowded : unsent_bytes(meter_.rate_bytes_per_s() / connections);
  for (const auto& [number, data] : all_) {
    if (data.connection->is_closed()) continue;
    data.connection->limit_unsent(unsent);
    data.connection->limit_rate(limit > 0 ? static_cast<std::uint64_t>(limit) : kNoRateLimit);
  }
}

void DataConnections::set_pace(Clock::duration answer) {
  answer_ = answer;
  pace();
}

// A small burst over one connection finds the window that the last one left there; over several it
// finds little in each. Not where windows do not outlast a pause, or losses keep them small.
std::size_t DataConnections::connections_for(std::uint64_t bytes) const {
  if (restarts_ || meter_.loss() > kLossThatKeepsWindowsSmall) return kDataConnectionsMax;
  return std::min<std::uint64_t>(bytes / kBytesOfAConnection + 1, kDataConnectionsMax);
}

std::uint64_t DataConnections::newly_delivered_bytes() {
  std::uint64_t bytes = 0;
  for (auto& [number, data] : all_) {
    if (const auto figures = data.connection->look()) {
      const std::uint32_t segments =
          figures->delivered_segments -
          std::exchange(data.delivered_segments, figures->delivered_segments);
      bytes += std::uint64_t{segments} * figures->segment_bytes;
    }
  }
  return bytes;
}

void DataConnections::look(Clock::time_point now) {
  for (auto& [number, data] : all_) {
    if (const auto figures = data.connection->look()) {
      meter_.on_tcp(number, *figures);
      data.acked_bytes = figures->acked_bytes;
    }
    last_progress_ = std::max(last_progress_, data.connection->last_progress());
    const bool sends = outgoing_.in_flight(number) > 0;
    if (!sends && !data.connection->inside_frame()) data.waiting_since = now;
    const std::uint64_t before = std::exchange(data.confirmed, outgoing_.confirmed(number));
    if (sends && data.confirmed == before) continue;
    data.unanswered_since = now;
    data.acked_bytes_then = data.acked_bytes;
  }
}

// What confirms bytes may be a box in between that keeps them, while more are sent: the peer then
// waits for the first of them.
bool DataConnections::is_unanswered(const DataConnection& data, Clock::time_point now) const {
  return now - data.unanswered_since > answer_deadline_ &&
         data.acked_bytes - data.acked_bytes_then > kUnansweredBytesMax;
}

// What may be wrong with one on which nothing moves any more.
std::string DataConnections::suspicion(ConnectionNumber number, const DataConnection& data) const {
  const bool sends = outgoing_.in_flight(number) > 0;
  const std::uint64_t moved_bytes =
      sends ? data.connection->acked_bytes() : data.connection->received_bytes();
  std::string text = moved_bytes >= kMovedBytesMin ? "" : kNothingLarge;
  const auto silent = data.waiting_since - data.connection->last_progress();
  if (silent > kForgettable) {
    text += "; it was silent for " + seconds_text(silent) +
            " before: a firewall or NAT on the way may have forgotten it";
  }
  return text;
}

std::string DataConnections::why_stalled(ConnectionNumber number, const DataConnection& data,
                                         Clock::time_point now, Clock::duration answer) const {
  const bool moves = now - last_progress_ <= options_.idle_deadline;  // or the path is dead
  const int deadlines = moves && answer > kLateAnswer ? kControlDeadlines : 1;
  const auto longest = deadlines * Clock::duration(options_.idle_deadline);
  const auto deadline = meter_.stall_deadline(longest, moves ? answer : Clock::duration{});
  const auto idle = now - std::max(data.connection->last_progress(), data.waiting_since);
  if (idle > deadline) {
    return "no byte moved for " + seconds_text(idle) + " of at most " + seconds_text(deadline) +
           " on a data connection" + suspicion(number, data);
  }
  if (!is_unanswered(data, now)) return {};
  return "it confirmed nothing for " + seconds_text(now - data.unanswered_since) + " of at most " +
         seconds_text(answer_deadline_) + " on a data connection, though the network took " +
         std::to_string(data.acked_bytes - data.acked_bytes_then) +
         " bytes: a proxy in between may keep them";
}

// What they took when the path was free, or seemed so, would be on its way for minutes before what
// is needed now; and TCP on them holds windows of then, and loses most of what it sends. Likewise
// once the path is free again: BBR, which has waited in its queue for long, takes a minute to see
// that. A path is free where bytes are under way and no heartbeat waits.
void DataConnections::begin_anew(Clock::time_point now, Clock::duration answer) {
  const bool crowded = meter_.is_crowded(now);
  const bool begins = crowded && !crowded_;
  quick_answers_ =
      crowded && outgoing_.under_way() && answer <= kQuickAnswer ? quick_answers_ + 1 : 0;
  const bool ends = quick_answers_ >= kQuickAnswersMin;
  if (ends) meter_.end_crowd();
  crowded_ = crowded && !ends;
  if (!begins && !ends) return;
  quick_answers_ = 0;
  for (const auto& [number, data] : all_) {
    if (outgoing_.in_flight(number) > 0) data.connection->abort(Errc::deadline, kPathChanged);
  }
}

// What waits in the socket would keep the end of the connection from the peer, which is to make
// another.
void DataConnections::drop_stalled(Clock::time_point now, Clock::duration answer,
                                   const std::string& in_flight) {
  bool unanswered = false;
  std::optional<Clock::time_point> silent_since;
  for (auto& [number, data] : all_) {
    if (data.connection->is_closed()) continue;
    std::string reason = why_stalled(number, data, now, answer);
    if (reason.empty()) continue;
    const bool takes_bytes = is_unanswered(data, now);
    unanswered = unanswered || takes_bytes;
    if (!takes_bytes)
      silent_since = std::max(silent_since.value_or(data.waiting_since), data.waiting_since);
    reason += "; " + in_flight;
    spdlog::warn("{}: dropping one of {} data connections to {}: {}", options_.self, all_.size(),
                 peer_, reason);
    data.connection->abort(Errc::deadline, reason);
  }
  if (unanswered)
    answer_deadline_ = std::min(2 * answer_deadline_, kAnswerDeadlinesMax * options_.idle_deadline);
  const bool path_is_well = answer <= kLateAnswer && !meter_.is_crowded(now);
  if (silent_since && path_is_well) drop_silent(*silent_since);
}

// What ails one that carries nothing while heartbeats are answered in time ails those, too, that
// have carried nothing for as long: something forgets what is silent, or drops what is large. One
// after the other they would cost a deadline each, and be silent for long enough again.
void DataConnections::drop_silent(Clock::time_point since) {
  for (const auto& [number, data] : all_) {
    const bool busy = outgoing_.in_flight(number) > 0 || data.connection->inside_frame();
    if (!data.connection->is_closed() && !busy && data.connection->last_progress() <= since)
      data.connection->abort(Errc::deadline, kAsSilent);
  }
}

}  // namespace causeway::inter
