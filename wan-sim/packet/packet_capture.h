// The packets of the packet engine in files, two for each link that carries any:
//
//   DIRECTORY/eu_to_us.pcapng       what arrived in us, with the time at which it left the link
//   DIRECTORY/eu_to_us.lost.pcapng  what did not, with the time at which it was sent and a comment
//                                   that says why
//
// A file each, because tcpdump shows no comments: nobody takes a lost packet for one that arrived.
// What the disk does never stops the engine: a thread of its own writes, what waits for it is
// bounded, and when the disk fails or enough is written the rest is left out, and said to be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wan-sim/packet/capture_writer.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

struct CaptureOptions {
  std::filesystem::path directory;
  std::uint32_t snap_bytes = 65'535;        // of each packet, from its IP header on
  std::uint64_t bytes_max = 1'000'000'000;  // of all files
  std::uint64_t waiting_bytes_max = 64U << 20;
};

struct CaptureState {
  bool on = true;
  std::uint64_t arrived = 0, lost = 0;  // packets in the files, or on their way there
  std::uint64_t left_out = 0;           // packets that would be there, had there been room
  std::uint64_t bytes = 0;              // of all files
  std::string problem{};                // why nothing more is written; empty: it is
};

// One thread.
class PacketCapture {
 public:
  // Makes the directory, and removes there what another run has left of these files. Throws
  // std::filesystem::filesystem_error if it cannot.
  PacketCapture(CaptureOptions options, const Scenario& scenario);

  // The thread that writes: once the engine is made, which may need a process without others.
  void start() { writer_->start(); }
  // When all is written that can be.
  void finish();

  std::size_t place_of(const Pair& link) const { return places_.at(link); }
  // `at`: of the steady clock.
  void add_arrived(std::size_t place, std::span<const std::uint8_t> ip, Time at);
  void add_lost(std::size_t place, std::span<const std::uint8_t> ip, Time at, std::string_view why);
  // Hands on what has been gathered for a while.
  void on_time(Time now);

  // Off: packets are not written until it is on again.
  void turn(bool on) { state_.on = on; }
  const CaptureState& state() const { return state_; }
  const std::filesystem::path& directory() const { return options_.directory; }

 private:
  struct File {
    std::string interface;
    bool begun = false;  // its head is gathered or written
    std::string gathered{};
    std::uint64_t packets = 0;  // of what is gathered
  };
  bool add(std::size_t number, std::span<const std::uint8_t> ip, Time at, std::string_view comment);
  bool has_room(std::uint64_t bytes);
  void gather_chunks();
  void note(const CaptureWriter::Outcome& outcome);
  void stop_writing(const std::string& problem);

  const CaptureOptions options_;
  const Time since_1970_;  // what the steady clock lacks of the time of day
  std::map<Pair, std::size_t> places_;
  std::vector<File> files_;  // two for each place
  std::unique_ptr<CaptureWriter> writer_;
  std::vector<std::size_t> touched_;          // files that have gathered
  std::vector<CaptureWriter::Chunk> chunks_;  // to be handed on
  std::uint64_t here_bytes_ = 0;              // gathered, or in chunks
  std::uint64_t there_bytes_ = 0;             // with the writer, as far as is known
  Time handed_at_{0};
  CaptureState state_;
};

}  // namespace causeway::wan_sim
