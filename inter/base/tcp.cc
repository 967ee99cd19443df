#include "inter/base/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>

namespace causeway::inter {
namespace {

template <typename Value>
bool set(int socket, int level, int option, const Value& value) {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

}  // namespace

std::optional<TcpFigures> tcp_figures(int socket) {
  constexpr std::uint32_t kUnknown = ~0U;  // no round trip was measured
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return TcpFigures{.acked_bytes = info.tcpi_bytes_acked,
                    .delivery_bytes_per_s = info.tcpi_delivery_rate,
                    .sent_segments = info.tcpi_segs_out,
                    .retransmitted_segments = info.tcpi_total_retrans,
                    .unneeded_segments = info.tcpi_dsack_dups,
                    .delivered_segments = info.tcpi_delivered,
                    .segment_bytes = info.tcpi_snd_mss,
                    .round_trip_min = std::chrono::microseconds(
                        info.tcpi_min_rtt == kUnknown ? 0 : info.tcpi_min_rtt)};
}

void tune(int socket, std::chrono::milliseconds user_timeout) {
  constexpr int kOn = 1;
  constexpr int kIdleSeconds = 10;  // few boxes forget sooner
  constexpr int kIntervalSeconds = 10;
  constexpr int kProbes = 3;  // where there is no user timeout, which otherwise decides
  set(socket, IPPROTO_TCP, TCP_NODELAY, kOn);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, kOn);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kIntervalSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<unsigned>(user_timeout.count()));
}

void limit_unsent(int socket, unsigned bytes) {
  set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes);
}

void limit_segments(int socket, int bytes) {
  set(socket, IPPROTO_TCP, TCP_MAXSEG, bytes);
}

bool set_congestion_control(int socket, const std::string& name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.c_str(),
                      static_cast<socklen_t>(name.size())) == 0;
}

std::string congestion_control(int socket) {
  char name[16] = {};
  socklen_t size = sizeof name - 1;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0 ? name : "";
}

void set_pacing_rate(int socket, std::uint64_t bytes_per_s) {
  set(socket, SOL_SOCKET, SO_MAX_PACING_RATE, bytes_per_s);
}

void discard_unsent(int socket) {
  set(socket, SOL_SOCKET, SO_LINGER, linger{.l_onoff = 1, .l_linger = 0});
}

bool restarts_after_idle() {
  int value = 1;
  std::ifstream("/proc/sys/net/ipv4/tcp_slow_start_after_idle") >> value;
  return value != 0;
}

}  // namespace causeway::inter
