// How a running WAN is watched and steered, whichever engine runs it: --control, --http, --record.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>

#include "apps/wan/wan_api.h"
#include "apps/wan/wan_figures.h"
#include "apps/wan/wan_sim.h"
#include "wan-sim/live/control.h"
#include "wan-sim/live/live_wan.h"
#include "wan-sim/live/recording.h"

namespace causeway::apps {

// On the engine's thread, that of `executor`.
class WanConsole {
 public:
  // Opens the recording and binds the HTTP port, without a thread and before the engine is made.
  WanConsole(const WanSimFlags& flags, const wan_sim::Scenario& scenario,
             asio::any_io_executor executor);

  // For the engine's options; nothing if nobody records.
  std::function<void(const wan_sim::WanEvent&)> on_event();
  void add(WanPort port) { ports_.push_back(std::move(port)); }
  void add(WanRegion region) { regions_.push_back(std::move(region)); }

  // The engine is made: time begins. Both must outlive the console's answers; `capture` may be
  // null.
  void attach(wan_sim::LiveWan& wan, wan_sim::PacketCapture* capture = nullptr);
  // From here on whoever asks is answered. Starts threads.
  void answer();

  void record_figures();
  // The engine's, and which ports carried nothing.
  wan_sim::Verdict judge() const;
  void record_verdict(const wan_sim::Verdict& verdict);

 private:
  std::string answer_line(const std::string& line);
  WanFigures look() const;
  void capture(bool on);
  wan_sim::Time since_start() const { return std::chrono::steady_clock::now() - begun_; }

  const WanSimFlags& flags_;
  const wan_sim::Scenario& scenario_;
  asio::any_io_executor executor_;
  std::optional<wan_sim::Recording> recording_;
  wan_sim::LiveWan* wan_ = nullptr;
  wan_sim::PacketCapture* capture_ = nullptr;
  std::chrono::steady_clock::time_point begun_;
  std::vector<WanPort> ports_;
  std::vector<WanRegion> regions_;
  std::optional<wan_sim::ControlSocket> control_;
  std::optional<WanApi> api_;  // goes first: its threads ask for the rest
};

}  // namespace causeway::apps
