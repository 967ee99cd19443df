// Any text at all as a trace. It may only be refused as a bad scenario; what is accepted has steps
// in order, within its length, with settings that links have.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>

#include "wan-sim/base/error.h"
#include "wan-sim/scenario/trace.h"

namespace {

using namespace causeway::wan_sim;

void parse(const std::string& text, TraceFormat format) {
  try {
    const Trace trace = parse_trace(text, format, "fuzz");
    Time last{-1};
    for (const auto& step : trace.steps) {
      if (step.at <= last || step.at >= trace.length) std::abort();
      last = step.at;
      LinkProfile profile;
      apply(step.settings, profile);
      if (!(profile.rate_bytes_per_s >= 0) || !(profile.loss.mean() <= 0.5)) std::abort();
    }
    if (trace.steps.empty()) std::abort();
  } catch (const std::system_error& error) {
    if (error.code() != Errc::bad_scenario) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse(text, TraceFormat::csv);
  parse(text, TraceFormat::mahimahi);
  return 0;
}
