// causeway wan-sim: the WAN alone, for any program.
#include "apps/wan/wan_sim.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/wan/wan_tell.h"
#include "wan-sim/live/recording.h"

namespace causeway::apps {
namespace {

// Each means something to some engines alone; to ignore it would be to do something else.
void refuse_flags_of_other_engines(const CLI::App& command, const std::string& engine) {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> engines_of{
      {"--map", {"relay"}},
      {"--control", {"relay", "packet"}},
      {"--http", {"relay", "packet"}},
      {"--record", {"relay", "packet"}},
      {"--seconds", {"relay", "packet"}},
      {"--run", {"packet"}},
      {"program", {"packet"}},
      {"--unnamed", {"packet"}},
      {"--pcap", {"packet"}},
      {"--pcap-snap", {"packet"}},
      {"--pcap-mb", {"packet"}},
      {"--pcap-off", {"packet"}},
      {"--transfer", {"virtual", "fluid"}},
      {"--idle", {"virtual", "fluid"}}};
  for (const auto& [flag, engines] : engines_of) {
    if (command.count(flag) == 0 || std::ranges::count(engines, engine) > 0) continue;
    throw CLI::ValidationError(flag, "works only with --engine " +
                                         CLI::detail::join(engines, " or ") +
                                         ", not with --engine " + engine);
  }
}

int run_wan_sim(const CLI::App& command, const WanSimFlags& flags) {
  if (!flags.tell.empty()) {
    const std::string answer = wan_tell(flags.tell, flags.command);
    std::printf("%s\n", answer.c_str());
    return answer.starts_with("error") ? 2 : 0;
  }
  if (flags.profile.empty() == flags.replay.empty()) {
    throw CLI::ValidationError("PROFILE", "give a scenario file, or --replay RECORDING");
  }
  refuse_flags_of_other_engines(command, flags.engine);
  const wan_sim::Scenario scenario = flags.replay.empty() ? wan_sim::load_scenario(flags.profile)
                                                          : wan_sim::load_recording(flags.replay);
  if (flags.engine == "relay") return run_wan_relay(flags, scenario);
  if (flags.engine == "packet") return run_wan_packet(flags, scenario);
  return run_wan_virtual(flags, scenario);
}

void add_packet_flags(CLI::App& command, WanSimFlags& flags) {
  constexpr std::uint64_t kMegabyte = 1'000'000;
  command.add_option("--run", flags.run_in, "packet: the region in which PROGRAM runs");
  command.add_option("program", flags.program,
                     "packet: after --, a program and its arguments; the WAN ends with it");
  command.add_flag("--unnamed", flags.unnamed,
                   "packet: give the regions no names that `ip netns` knows, so that several such "
                   "WANs may run side by side");
  auto* pcap = command.add_option(
      "--pcap", flags.pcap.directory,
      "packet: write the packets of each link into this directory, for tcpdump and Wireshark");
  command
      .add_option("--pcap-snap", flags.pcap.snap_bytes,
                  "packet: write at most this many bytes of each packet (default: all)")
      ->check(number_from(20, 65'535))
      ->needs(pcap);
  command
      .add_option_function<std::uint64_t>(
          "--pcap-mb",
          [&flags](std::uint64_t megabytes) { flags.pcap.bytes_max = megabytes * kMegabyte; },
          "packet: write at most this many MB (default: 1000)")
      ->check(number_from(1, 1e9))
      ->needs(pcap);
  command
      .add_flag("--pcap-off", flags.pcap_off,
                "packet: write no packets until POST /capture on --http asks for them")
      ->needs(pcap);
}

void add_steering_flags(CLI::App& command, WanSimFlags& flags) {
  add_repeated(command, "--map", flags.maps,
               "relay: FROM:TO=HOST:PORT[,listen=HOST:PORT][,udp], repeated: where TO listens as "
               "seen from FROM, and where the relay listens (default: any port of 127.0.0.1). "
               "Prints the address that FROM dials instead");
  command.add_option(
      "--control", flags.control,
      "relay and packet: a Unix socket that takes one command a line, as in [[event]]");
  command.add_option("--http", flags.http,
                     "relay and packet: HOST:PORT, or only a port of 127.0.0.1, to serve figures, "
                     "a page that shows them, and commands at, without a password");
  command.add_option("--record", flags.record, "relay and packet: write what happens to this file");
  command.add_option(
      "--replay", flags.replay,
      "Recording to play instead of PROFILE, with the commands that were given by hand");
  auto* tell = command.add_option(
      "--tell", flags.tell, "Send --command to a running wan-sim: its socket, or http://HOST:PORT");
  auto* sent = command.add_option("--command", flags.command,
                                  "The command to send, such as 'fault = \"reset\"'");
  tell->needs(sent);
  sent->needs(tell);
}

}  // namespace

void add_wan_sim(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("wan-sim", "Run a simulated WAN for any program");
  auto flags = std::make_shared<WanSimFlags>();
  command->add_option("profile", flags->profile,
                      "Scenario file, such as configs/wan/quickstart.toml");
  command->add_option("--engine", flags->engine, "relay, packet, virtual (chunks) or fluid")
      ->check(CLI::IsMember({"relay", "packet", "virtual", "fluid"}));
  command
      ->add_option("--seconds", flags->seconds,
                   "End after this many seconds instead of with Ctrl-C")
      ->check(number_from(0.001, 1e9));
  add_steering_flags(*command, *flags);
  add_packet_flags(*command, *flags);
  add_repeated(*command, "--transfer", flags->transfers,
               "virtual and fluid: FROM:TO=BYTES[xCONNECTIONS], repeated, one after the other "
               "on the same connections. Prints how long each takes");
  command->add_option("--idle", flags->idle_s, "virtual and fluid: seconds between transfers")
      ->check(number_from(0, 1e9));
  command->callback([flags, command, &exit_code] { exit_code = run_wan_sim(*command, *flags); });
}

}  // namespace causeway::apps
