// Any text at all as a scenario, a recording, or a line of the control socket. It may only be
// refused as a bad scenario; what is accepted must be runnable: its timeline comes to its end, in
// order.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>

#include "wan-sim/base/error.h"
#include "wan-sim/live/recording.h"
#include "wan-sim/scenario/timeline.h"

namespace {

using namespace causeway::wan_sim;

constexpr int kStepsMax = 100;

template <typename Parse>
void only_refused(Parse parse) {
  try {
    parse();
  } catch (const std::system_error& error) {
    if (error.code() != Errc::bad_scenario) std::abort();
  }
}

void run(const Scenario& scenario) {
  Timeline timeline(scenario);
  Time last{0};
  for (int i = 0; i < kStepsMax; ++i) {
    const auto next = timeline.next();
    if (!next) return;
    if (*next < last || timeline.take(*next).empty()) std::abort();
    last = *next;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find("trace") != std::string::npos) return 0;  // names a file of this machine
  static const Scenario kBase = parse_scenario(
      "regions = ['a', 'b']\n[defaults]\nrtt_ms = 10\nrate_mbit_s = 80\n", "fuzz.toml");
  only_refused([&] {
    const Scenario scenario = parse_scenario(text, "fuzz.toml");
    run(scenario);
    only_refused([&] { require_honoured(scenario, Engine::packet); });
  });
  only_refused([&] { run(parse_recording(text, "fuzz.jsonl")); });
  only_refused([&] { parse_action(kBase, text); });
  return 0;
}
