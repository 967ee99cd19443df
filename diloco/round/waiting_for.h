// Who waits for whom, for what, and how far it is, in words: what a region says of itself in its
// status, in its log and to its worker. Pure: it follows from what the region and its machines
// know.
#pragma once

#include <string>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/data_check.h"
#include "diloco/round/leader.h"
#include "diloco/round/run_end.h"

namespace causeway::diloco {

// One sentence on what this region waits for; empty while its worker is busy.
std::string waiting_for(const Region& region, const Leader& leader, const Beginning& beginning,
                        const DataCheck& data_check, const RunEnd& end, Time now);

}  // namespace causeway::diloco
