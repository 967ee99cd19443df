// What a simulated WAN looks like and what happens to it: regions, hosts, directed links, and a
// timeline. One scenario for all engines. docs/wan-scenarios.md has the file format.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "wan-sim/base/impairments.h"

namespace causeway::wan_sim {

using Pair = std::pair<std::string, std::string>;  // of regions; directed: (from, to)

// How the sender of a connection answers loss and delay. none: it uses the whole rate at once.
enum class Congestion : std::uint8_t { none, reno, cubic, bbr };
inline constexpr std::string_view kCongestions[] = {"none", "reno", "cubic", "bbr"};

struct LinkProfile {
  double rate_bytes_per_s = 12.5e6;    // 100 Mbit/s; of the stream, without headers
  std::chrono::microseconds delay{0};  // one-way
  JitterProfile jitter;
  bool jitter_reorders = false;          // packets overtake each other as their jitter says
  double stalls_per_s = 0;               // Poisson
  std::chrono::microseconds stall{0};    // length of one stall
  std::uint64_t queue_bytes = 1U << 20;  // beyond bandwidth x delay
  std::chrono::microseconds queue{0};    // instead of queue_bytes: at the rate; 0: use queue_bytes
  LossProfile loss;
  Congestion congestion = Congestion::none;
  std::uint64_t send_buffer_bytes = 4U << 20;  // of each sender with congestion control
  // Per packet, and only where packets exist.
  double reorder = 0, duplicate = 0, corrupt = 0;

  std::uint64_t queue_limit_bytes() const;
};

// All connections of a host share its rate, in each direction.
struct Host {
  std::string name, region;
  double rate_bytes_per_s = 0;
};

// Settings of a link by the keys of the file, in their units.
using Settings = std::map<std::string_view, double>;
void apply(const Settings& settings, LinkProfile& profile);
void restore(const std::vector<std::string_view>& keys, const LinkProfile& from, LinkProfile& to);

enum class FaultKind : std::uint8_t {
  black_hole,  // what is sent vanishes, and is sent again when it ends
  stall,       // nothing enters the link; what it carries arrives
  reset,       // resets the connections there are
  refuse,      // refuses new ones
  slow_close,  // ends of streams take `length` longer
  corrupt,     // flips one bit of the first byte at or after `bytes` of a stream
  kill_after   // resets the connection that has delivered `bytes` more
};
inline constexpr std::string_view kFaults[] = {"black-hole", "stall",   "reset",     "refuse",
                                               "slow-close", "corrupt", "kill-after"};
struct Fault {
  FaultKind kind;
  Time length{0};
  std::uint64_t bytes = 0;
};
// Ends black holes, refusals and slow closes; only one kind of them, if given.
struct Heal {
  std::optional<FaultKind> kind{};
};
// Gives settings back the values that the links have without a timeline.
struct Restore {
  std::vector<std::string_view> keys;
};
enum class ProcessVerb : std::uint8_t { kill, pause, resume, restart };
inline constexpr std::string_view kProcessVerbs[] = {"kill", "pause", "resume", "restart"};
enum class ProcessRole : std::uint8_t { any, coordinator, worker };
inline constexpr std::string_view kProcessRoles[] = {"any", "coordinator", "worker"};
struct ProcessTarget {
  ProcessRole role = ProcessRole::any;
  std::optional<std::uint32_t> rank{};  // of a worker; none: all of them
};
// To a region's processes, by whoever runs them. kill: what is killed stays down until `restart`,
// which kills what still runs. pause and resume: SIGSTOP and SIGCONT.
struct ProcessAction {
  ProcessVerb verb;
  std::string region;
  ProcessTarget target{};
  std::vector<ProcessTarget> spared{};  // of the target, because another event holds them
};
// What ends a kill or a pause; nothing ends the rest.
std::optional<ProcessVerb> undoing(ProcessVerb verb);

struct Action {
  std::vector<Pair> links;  // directed; empty for a process
  std::variant<Settings, Restore, Fault, Heal, ProcessAction> what;
  std::string text;  // as one line, for logs and recordings
};
struct TimedAction {
  Time at{0};  // since the run's start
  Action action;
  // The same in an event and in what ends it; none if nothing does.
  std::shared_ptr<const void> span{};
};

// A recording of a link: each step holds until the next one; from `length` on it starts again.
struct Trace {
  struct Step {
    Time at{0};
    Settings settings;
  };
  std::vector<Step> steps;
  Time length{0};
};

// A setting that not every engine can honour, and where it stands.
struct SettingUse {
  std::string name;
  std::uint32_t line = 0;
  unsigned engines = 0;
  std::filesystem::path file{};  // empty: the scenario's
};

struct Scenario {
  std::string name;
  std::vector<std::string> regions;
  std::map<Pair, LinkProfile> links;
  std::uint64_t seed = 1;
  std::vector<Host> hosts;
  std::vector<TimedAction> timeline;  // ascending
  std::map<Pair, Trace> traces;
  std::chrono::microseconds lateness_max{5'000};  // 99th percentile; above it a run is invalid

  std::filesystem::path file;
  std::string text;  // of the file
  std::vector<SettingUse> uses;
};

// Throws std::system_error (Errc::bad_scenario): file, line, what is allowed.
Scenario load_scenario(const std::filesystem::path& file);
// `file` names the text in messages, and traces are looked for beside it.
Scenario parse_scenario(const std::string& text, const std::filesystem::path& file);

// The engines. virtual_chunks and virtual_fluid are two modes of one.
enum class Engine : unsigned { relay = 1, packet = 2, virtual_chunks = 4, virtual_fluid = 8 };

// One action as in [[event]], without at_s, as TOML's `key = value, key = value`. With for_s, the
// second one undoes it. What not every engine can do is added to `uses`.
std::vector<TimedAction> read_action(const Scenario& scenario, const std::string& line,
                                     std::vector<SettingUse>& uses);
// The same for one engine: what it cannot do is refused. `also`: as in require_honoured.
std::vector<TimedAction> parse_action(const Scenario& scenario, const std::string& line,
                                      Engine engine = Engine::relay,
                                      std::optional<Engine> also = {});

// Throws Errc::bad_scenario naming file, line and engine at the first setting that the engine
// cannot honour. `also`: what that engine honours passes too.
void require_honoured(const Scenario& scenario, Engine engine, std::optional<Engine> also = {});
// Where nobody runs processes: throws Errc::bad_scenario naming the first event that asks for one.
void refuse_process_actions(const Scenario& scenario);
void refuse_process_actions(const std::vector<TimedAction>& commanded);

}  // namespace causeway::wan_sim
