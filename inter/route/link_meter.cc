#include "inter/route/link_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace causeway::inter {
namespace {

using std::chrono::duration;

constexpr std::uint64_t kWindowBytesMin = 1U << 20;  // fewer say nothing about a rate, but if they
constexpr double kSlowWindowSeconds = 8;             // take so long
constexpr std::chrono::seconds kWindow{1};
// Bursts that end before a window is full. TCP's slow start alone carries a MiB in eight round
// trips: what takes twice as many was held back by the path. A peer that pauses once is no path.
constexpr double kShortBurstBytesMin = 16U << 10;
constexpr double kSlowSeconds = 1, kSlowRoundTrips = 16;
constexpr int kSlowBurstsMin = 2;  // in a row
constexpr double kAboutTheRate = 0.9;
constexpr double kCrowdedBytesPerS = 125'000;  // below that rate, if
constexpr double kUncrowdedBytesPerS = 2 * kCrowdedBytesPerS;
constexpr double kCrowdedBytesPerSMin = 4096;  // one small segment in each of its round trips
constexpr std::chrono::seconds kCrowdedRoundTrip{1};  // heartbeats take longer
constexpr std::chrono::minutes kCrowdedFor{10};       // one connection leaves little of the queue
constexpr double kBusySeconds = 4;                    // of a window
constexpr int kSlowWindowsMin = 2;  // in a row: a peer that pauses once is no path
constexpr std::size_t kRatesKept = 64;
constexpr std::uint64_t kSegmentsMin = 100;
constexpr double kLossy = 0.005;  // share of segments
constexpr double kPlateau = 1.2;  // two samples closer than that are no slow start
constexpr double kForget = 0.9;   // of an older peak, with each burst
constexpr double kHeadroomAtFirst = 1.1, kHeadroomMin = 0.8, kHeadroomMax = 2;
constexpr double kTighten = 0.9, kLoosen = 1.1;  // with each burst
constexpr double kAtTheLimit = 0.9;              // share of it
constexpr double kBurstSecondsMax = 4;           // a longer one counts as several
constexpr int kFreeBursts = 32;                  // before a limit is tried again

double smooth(double old, double sample, double gain) {
  return old == 0 ? sample : old + gain * (sample - old);
}

}  // namespace

void LinkMeter::on_round_trip(std::chrono::microseconds sample, Time now) {
  round_trip_ = round_trip_.count() == 0 ? sample : (7 * round_trip_ + sample) / 8;
  const bool slow = rate_ > 0 && rate_ < kCrowdedBytesPerS;
  if (slow && round_trip_ > kCrowdedRoundTrip) crowded_until_ = now + kCrowdedFor;
}

void LinkMeter::on_burst(Time now) {
  bursting_ = false;
  short_burst_ = {.began = now};
}

void LinkMeter::on_acknowledged(std::uint64_t bytes, bool idle, Time now) {
  if (short_burst_) short_burst_->bytes += bytes;
  if (!bursting_) {
    begin_window(now);  // the clock of the rate starts with the first confirmation
  } else {
    const double gap_s = duration<double>(now - last_ack_).count();
    gap_deviation_s_ = smooth(gap_deviation_s_, std::abs(gap_s - gap_s_), 1.0 / 4);
    gap_s_ = smooth(gap_s_, gap_s, 1.0 / 8);
    window_bytes_ += bytes;
  }
  last_ack_ = now;
  if (idle || now - window_began_ >= kWindow) end_window(now);
  if (idle) end_short_burst(now);
  bursting_ = !idle;
}

void LinkMeter::begin_window(Time now) {
  window_began_ = now;
  window_bytes_ = 0;
}

void LinkMeter::end_window(Time now) {
  const double seconds = duration<double>(now - window_began_).count();
  const bool slow = window_bytes_ > 0 && seconds >= kSlowWindowSeconds &&
                    seconds >= kSlowRoundTrips * path_round_trip_s();
  if ((window_bytes_ >= kWindowBytesMin && seconds > 0) || slow) {
    add_rate(static_cast<double>(window_bytes_) / seconds);
    if (short_burst_) short_burst_->measured = true;
    begin_window(now);
  }
}

// From its first byte to its last confirmation, as there may be only one.
void LinkMeter::end_short_burst(Time now) {
  const ShortBurst burst = std::exchange(short_burst_, std::nullopt).value_or(ShortBurst{});
  const auto bytes = static_cast<double>(burst.bytes);
  const double seconds = std::max(1e-6, duration<double>(now - burst.began).count());
  if (burst.measured) slow_bursts_ = {};
  if (burst.measured || bytes < kShortBurstBytesMin) return;
  const double round_trip_s = path_round_trip_s();
  if (seconds >= kSlowSeconds && seconds >= kSlowRoundTrips * round_trip_s) {
    slow_bursts_ = {slow_bursts_.count + 1, slow_bursts_.bytes + bytes,
                    slow_bursts_.seconds + seconds - round_trip_s};
    if (slow_bursts_.count < kSlowBurstsMin) return;
    add_rate(slow_bursts_.bytes / slow_bursts_.seconds);
    slow_bursts_ = {slow_bursts_.count, 0, 0};
    return;
  }
  slow_bursts_ = {};
  const double rate = bytes / seconds;
  at_least_ = smooth(at_least_, rate, 0.5);
  if (rate_ > 0 && rate > kAboutTheRate * rate_) add_rate(rate);  // it has recovered
}

void LinkMeter::add_rate(double bytes_per_s) {
  rates_.push_back(bytes_per_s);
  if (rates_.size() > kRatesKept) rates_.pop_front();
  rate_ = smooth(rate_, bytes_per_s, 0.5);
  at_least_ = std::min(at_least_, bytes_per_s);  // what it was before says nothing of now
  if (bytes_per_s > kUncrowdedBytesPerS && crowded_until_ != Time{}) end_crowd();
}

// What was lost in its queue, and how fast it was then, sets no limit any more.
void LinkMeter::end_crowd() {
  crowded_until_ = {};
  headroom_ = 0;
}

// Of the path itself: heartbeats also wait in its queues.
double LinkMeter::path_round_trip_s() const {
  std::chrono::microseconds least = round_trip_;
  for (const auto& [connection, seen] : seen_)
    if (seen.round_trip_min.count() > 0)
      least = least.count() == 0 ? seen.round_trip_min : std::min(least, seen.round_trip_min);
  return duration<double>(least).count();
}

double LinkMeter::rate_quantile_bytes_per_s(double share) const {
  if (rates_.empty()) return 0;
  std::vector<double> sorted(rates_.begin(), rates_.end());
  std::ranges::sort(sorted);
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void LinkMeter::on_tcp(ConnectionNumber connection, const TcpFigures& figures) {
  segment_bytes_ = figures.segment_bytes;
  Segments& seen = seen_[connection];
  seen.round_trip_min = figures.round_trip_min;
  const std::uint64_t sent = figures.sent_segments - seen.sent;
  if (sent < kSegmentsMin) return;
  stream_rate_ = std::max(0.9 * stream_rate_, static_cast<double>(figures.delivery_bytes_per_s));
  // On a short path TCP sends again what is only late, and hears so from the peer a little later.
  const std::uint64_t lost =
      std::max(seen.lost, figures.retransmitted_segments -
                              std::min(figures.retransmitted_segments, figures.unneeded_segments));
  const double share = static_cast<double>(lost - seen.lost) / static_cast<double>(sent);
  loss_ += 0.25 * (share - loss_);
  lost_ = lost_.value_or(false) || share > kLossy;
  seen.sent = figures.sent_segments;
  seen.lost = lost;
}

void LinkMeter::on_delivered(std::uint64_t bytes, Duration time) {
  burst_bytes_ += static_cast<double>(bytes);
  burst_s_ += duration<double>(time).count();
  const double rate = static_cast<double>(bytes) / duration<double>(time).count();
  const double before = std::exchange(last_sample_, rate);
  if (std::max(rate, before) < kPlateau * std::min(rate, before))
    burst_peak_ = std::max(burst_peak_, std::min(rate, before));
  if (burst_s_ >= kBurstSecondsMax) end_burst();
}

// Well before chunks are confirmed: those of several connections end together, after a minute.
void LinkMeter::on_busy(std::uint64_t bytes, Duration time, Duration answer, Time now) {
  busy_bytes_ += static_cast<double>(bytes);
  busy_s_ += duration<double>(time).count();
  if (busy_s_ < kBusySeconds) return;
  const double rate = std::exchange(busy_bytes_, 0) / std::exchange(busy_s_, 0);
  const bool full = rate > 0 && rate < kCrowdedBytesPerS && answer > kCrowdedRoundTrip;
  slow_windows_ = full ? slow_windows_ + 1 : 0;
  if (slow_windows_ >= kSlowWindowsMin) crowded_until_ = now + kCrowdedFor;
}

// Two small samples while many connections begin look like a plateau, but the burst's mean is
// higher: pacing by them would make the next bursts as slow.
void LinkMeter::end_burst() {
  if (burst_peak_ > 0 && burst_peak_ * burst_s_ >= burst_bytes_) {
    // A burst at the limit says nothing about the path beyond it.
    const bool held_back = limited() && burst_peak_ >= kAtTheLimit * pacing_bytes_per_s();
    peak_ = std::max(burst_peak_, (held_back ? 1 : kForget) * peak_);
  }
  burst_peak_ = burst_bytes_ = burst_s_ = 0;
  if (lost_) {
    adjust_headroom(*lost_);
    lost_.reset();
  }
}

void LinkMeter::on_quiet() {
  end_burst();
  busy_bytes_ = busy_s_ = 0;
  slow_windows_ = 0;
  last_sample_ = 0;
}

// Well below the peak a burst overflows no queue: what is lost there the path loses however slowly
// it is sent, and a limit would only cost time.
void LinkMeter::adjust_headroom(bool lost) {
  if (free_bursts_ > 0) {
    --free_bursts_;
  } else if (!lost) {
    if (limited()) headroom_ *= kLoosen;
  } else if (!limited()) {
    headroom_ = kHeadroomAtFirst;
  } else if (headroom_ > kHeadroomMin) {
    headroom_ = std::max(kHeadroomMin, kTighten * headroom_);
  } else {
    headroom_ = 0;
    free_bursts_ = kFreeBursts;
  }
}

bool LinkMeter::limited() const {
  return peak_ > 0 && headroom_ > 0 && headroom_ < kHeadroomMax;
}

double LinkMeter::pacing_bytes_per_s() const {
  return limited() ? headroom_ * peak_ : 0;
}

double LinkMeter::crowded_pacing_bytes_per_s(Duration answer) const {
  if (answer <= kCrowdedRoundTrip) return 0;
  const double rate = std::min(rate_, kCrowdedBytesPerS);  // smoothed, and so perhaps of before
  return 2 * std::max({kCrowdedBytesPerSMin, rate, last_sample_});
}

LinkMeter::Duration LinkMeter::stall_deadline(Duration longest, Duration answer) const {
  if (gap_s_ == 0) return longest;
  const Duration round_trip = std::max<Duration>(round_trip_, answer);
  const duration<double> expected(gap_s_ + 4 * gap_deviation_s_ +
                                  8 * duration<double>(round_trip).count());
  return std::clamp(std::chrono::duration_cast<Duration>(expected), longest / 4, longest);
}

}  // namespace causeway::inter
