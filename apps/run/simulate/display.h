// What a run looks like while it goes on: a live picture on a terminal, lines elsewhere. What is
// shown is a pure function of a View.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/region/region_files.h"

namespace causeway::run {

struct LinkView {
  std::string peer;
  bool up = false;
  double round_trip_ms = 0;  // 0: not measured yet
  std::string via = {};      // the region by way of which the peer is reached, while it is down
};

struct RegionView {
  std::string name;
  std::uint64_t step = 0;
  std::optional<double> loss = {};  // nats per token, of the last inner step
  double tokens_per_s = 0;
  double mfu = 0;     // of its devices; 0: unknown
  std::string state;  // what it does or waits for
  std::vector<LinkView> links;
  std::optional<double> val_loss = {};  // of the newest validation
};

struct View {
  std::string title;                    // name of the run
  std::string phase;                    // "training", "synchronous baseline"
  std::uint64_t steps = 0;              // of the phase
  std::uint64_t round = 0, rounds = 0;  // rounds 0: the phase has none
  double elapsed_s = 0;
  double remaining_s = -1;  // below 0: unknown
  std::uint64_t wan_bytes = 0;
  double wan_bytes_per_s = 0;
  std::optional<RunEgress> egress = {};  // what it cost, if prices are known
  std::uint32_t restarts = 0;
  std::vector<RegionView> regions;
  std::vector<std::string> notes;  // restarts and faults, oldest first; only ever grows
};

// One frame, no line longer than `width`.
std::vector<std::string> render(const View& view, std::size_t width);

// The same as a log: new notes, a line per committed round, and at most one line per region every
// five seconds.
class PlainProgress {
 public:
  std::vector<std::string> lines(const View& view);

 private:
  std::string phase_;
  std::uint64_t round_ = 0;
  std::size_t notes_ = 0;
  std::map<std::string, double> shown_at_s_;
};

// Writes to stdout: frames redrawn in place if it is a terminal, plain lines if not.
class Display {
 public:
  Display();
  void update(const View& view);
  void finish();  // what follows is printed below the last frame

 private:
  bool terminal_;
  std::size_t drawn_lines_ = 0;
  PlainProgress plain_;
};

}  // namespace causeway::run
