// What TCP knows and how it is told to send: options of a socket that Asio has no names for. Linux.
// None of these throws: a socket without them works, only less well.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace causeway::inter {

struct TcpFigures {
  std::uint64_t acked_bytes = 0;           // by the peer's kernel
  std::uint64_t delivery_bytes_per_s = 0;  // TCP's own estimate, 0 if it has none
  std::uint64_t sent_segments = 0;
  std::uint64_t retransmitted_segments = 0;
  std::uint64_t unneeded_segments = 0;          // of these: the peer had them already
  std::uint32_t delivered_segments = 0;         // also those beyond a gap; wraps around
  std::uint32_t segment_bytes = 0;              // of a full one
  std::chrono::microseconds round_trip_min{0};  // of the last minutes; 0: unknown
};
std::optional<TcpFigures> tcp_figures(int socket);

// Small frames leave at once; a peer that vanished is noticed by the kernel even when nothing is
// sent, and middle boxes keep an idle connection.
void tune(int socket, std::chrono::milliseconds user_timeout);

// Bytes that wait in the socket behind what TCP has under way. Little: what is handed over cannot
// go another way any more.
void limit_unsent(int socket, unsigned bytes);

// Every path takes segments of so many bytes.
constexpr int kSmallSegmentBytes = 536;

// Of a socket that is not connected yet: neither side sends larger segments.
void limit_segments(int socket, int bytes);

// False if the kernel does not have it or does not let us.
bool set_congestion_control(int socket, const std::string& name);
std::string congestion_control(int socket);

void set_pacing_rate(int socket, std::uint64_t bytes_per_s);  // an upper limit, in the kernel

// What waits in the socket, or is under way and not confirmed, is not sent (again) once it is
// closed.
void discard_unsent(int socket);

// Whether TCP forgets the path's width when idle (net.ipv4.tcp_slow_start_after_idle).
bool restarts_after_idle();

}  // namespace causeway::inter
