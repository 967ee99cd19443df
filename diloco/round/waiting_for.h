// Who waits for whom, for what, and how far it is, in words.
#pragma once

#include <string>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/leader.h"

namespace causeway::diloco {

// One sentence on what this region waits for; empty while its worker is busy.
std::string waiting_for(const Region& region, const Leader& leader, const Beginning& beginning,
                        Time now);

}  // namespace causeway::diloco
