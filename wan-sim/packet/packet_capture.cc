#include "wan-sim/packet/packet_capture.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "wan-sim/packet/pcapng.h"

namespace causeway::wan_sim {
namespace {

// Few writes at full speed, and files that are never far behind at a low one.
constexpr std::uint64_t kHandOnBytes = 256U << 10;
constexpr Time kHandOnInterval = std::chrono::milliseconds{100};

Time since_1970_at_zero() {
  return std::chrono::system_clock::now().time_since_epoch() -
         std::chrono::steady_clock::now().time_since_epoch();
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::error_code error) {
  throw std::filesystem::filesystem_error("packets of links", path, error);
}

bool holds_lost_ones(std::size_t file) {
  return file % 2 == 1;
}

}  // namespace

PacketCapture::PacketCapture(CaptureOptions options, const Scenario& scenario)
    : options_(std::move(options)), since_1970_(since_1970_at_zero()) {
  const std::filesystem::path& directory = options_.directory;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) refuse(directory, error);
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    refuse(directory, {errno, std::generic_category()});
  std::vector<std::filesystem::path> paths;
  for (const auto& [pair, profile] : scenario.links) {
    places_.emplace(pair, places_.size());
    for (const char* const suffix : {".pcapng", ".lost.pcapng"}) {
      // No region's name has an underscore.
      paths.push_back(directory / (pair.first + "_to_" + pair.second + suffix));
      files_.push_back({.interface = pair.first + ":" + pair.second});
      std::filesystem::remove(paths.back(), error);
      if (error) refuse(paths.back(), error);
    }
  }
  writer_ = std::make_unique<CaptureWriter>(std::move(paths));
}

void PacketCapture::finish() {
  gather_chunks();
  here_bytes_ = 0;
  note(writer_->finish(std::exchange(chunks_, {})));
}

void PacketCapture::add_arrived(std::size_t place, std::span<const std::uint8_t> ip, Time at) {
  if (add(2 * place, ip, at, {})) ++state_.arrived;
}

void PacketCapture::add_lost(std::size_t place, std::span<const std::uint8_t> ip, Time at,
                             std::string_view why) {
  if (add(2 * place + 1, ip, at, why)) ++state_.lost;
}

bool PacketCapture::add(std::size_t number, std::span<const std::uint8_t> ip, Time at,
                        std::string_view comment) {
  if (!state_.on) return false;
  File& file = files_[number];
  const PcapngPacket packet{ip, since_1970_ + at, comment};
  const std::string head = file.begun ? "" : pcapng_head(file.interface, options_.snap_bytes);
  const std::size_t bytes = head.size() + pcapng_bytes(packet, options_.snap_bytes);
  if (!has_room(bytes)) {
    ++state_.left_out;
    return false;
  }
  file.begun = true;
  if (file.packets++ == 0) touched_.push_back(number);
  file.gathered += head;
  append_pcapng(file.gathered, packet, options_.snap_bytes);
  here_bytes_ += bytes;
  state_.bytes += bytes;
  return true;
}

bool PacketCapture::has_room(std::uint64_t bytes) {
  if (!state_.problem.empty()) return false;
  if (here_bytes_ + there_bytes_ + bytes > options_.waiting_bytes_max) return false;
  if (state_.bytes + bytes <= options_.bytes_max) return true;
  stop_writing(
      fmt::format("{} has its {} MB of packets; give a larger --pcap-mb, or keep less of "
                  "each packet with --pcap-snap",
                  options_.directory.string(), options_.bytes_max / 1'000'000));
  return false;
}

void PacketCapture::on_time(Time now) {
  if (here_bytes_ < kHandOnBytes && now < handed_at_ + kHandOnInterval) return;
  handed_at_ = now;
  gather_chunks();
  CaptureWriter::Outcome outcome;
  if (!writer_->try_give(chunks_, outcome)) return;
  here_bytes_ = 0;
  note(outcome);
}

void PacketCapture::gather_chunks() {
  for (const std::size_t number : std::exchange(touched_, {})) {
    File& file = files_[number];
    chunks_.push_back({number, std::exchange(file.gathered, {}), std::exchange(file.packets, 0)});
  }
}

void PacketCapture::note(const CaptureWriter::Outcome& outcome) {
  there_bytes_ = outcome.waiting_bytes;
  for (const CaptureWriter::Chunk& chunk : outcome.failed) {
    (holds_lost_ones(chunk.file) ? state_.lost : state_.arrived) -= chunk.packets;
    state_.left_out += chunk.packets;
    state_.bytes -= chunk.bytes.size();
  }
  if (!outcome.problem.empty() && state_.problem.empty()) stop_writing(outcome.problem);
}

// Told once. What follows is left out.
void PacketCapture::stop_writing(const std::string& problem) {
  state_.problem = problem;
  spdlog::warn("wan-sim --pcap: {}. No more packets are written; the WAN goes on", problem);
}

}  // namespace causeway::wan_sim
