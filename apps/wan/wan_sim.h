// `causeway wan-sim`, one file per engine. Each returns an exit code.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wan-sim/packet/packet_capture.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::apps {

struct WanSimFlags {
  std::filesystem::path profile;
  std::string engine = "relay";
  std::vector<std::string> maps;
  std::optional<double> seconds;
  std::filesystem::path control, record, replay;
  std::string http;
  std::string tell, command;
  std::vector<std::string> transfers;
  double idle_s = 0;
  std::string run_in;  // the region of `program`
  bool unnamed = false;
  wan_sim::CaptureOptions pcap;
  bool pcap_off = false;
  std::vector<std::string> program;
};

constexpr int kExitInvalid = 1;  // a run that its engine did not keep up with
constexpr int kExitInterrupted = 130;

int run_wan_relay(const WanSimFlags& flags, const wan_sim::Scenario& scenario);
int run_wan_virtual(const WanSimFlags& flags, const wan_sim::Scenario& scenario);
int run_wan_packet(const WanSimFlags& flags, const wan_sim::Scenario& scenario);

}  // namespace causeway::apps
