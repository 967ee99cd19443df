// What a visit to the other regions means, and what to do about it.
#pragma once

#include <cstdint>

#include "apps/run/doctor/card.h"
#include "apps/run/doctor/finding.h"
#include "apps/run/doctor/neighbours.h"

namespace causeway::run {

struct OwnSide {
  Card card;
  inter::Endpoint advertise;              // no host: nobody dials us
  std::uint64_t round_payload_bytes = 0;  // of a region in a round, at most; 0: not known
};

Findings judge_visit(const Visit& visit, const OwnSide& own);

}  // namespace causeway::run
