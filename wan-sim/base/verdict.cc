#include "wan-sim/base/verdict.h"

#include <cstdio>

namespace causeway::wan_sim {
namespace {

double milliseconds(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

bool kept_up(const Verdict& verdict) {
  return verdict.lateness_p99 <= verdict.lateness_max && verdict.shortfall <= kShortfallMax;
}

}  // namespace

bool Verdict::valid() const {
  return kept_up(*this) && silent.empty();
}

std::string to_string(const Verdict& verdict) {
  char figures[200];
  std::snprintf(figures, sizeof figures,
                "bytes were released up to %.2f ms late (99 %%; at most %.2f ms allowed), and "
                "%.1f %% of what a link could carry was missed (at most %.0f %% allowed)",
                milliseconds(verdict.lateness_p99), milliseconds(verdict.lateness_max),
                100 * verdict.shortfall, 100 * kShortfallMax);
  std::string text = (verdict.valid() ? "valid: " : "INVALID: ") + std::string(figures);
  if (!kept_up(verdict)) text += "; this run describes the machine, not the WAN";
  for (const std::string& pair : verdict.silent) text += "; " + pair + " carried nothing";
  if (!verdict.silent.empty()) {
    text +=
        ". A program that finds its peers' addresses by itself (Gloo, NCCL, MPI) goes past the "
        "relay; run it with --engine packet";
  }
  return text;
}

}  // namespace causeway::wan_sim
