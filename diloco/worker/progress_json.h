// A worker's progress as status.json shows it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "diloco/worker/worker_session.h"

namespace causeway::diloco {

// Keys are Progress's fields. A loss that is not a number is null, and so is an unknown mfu.
nlohmann::ordered_json to_json(const Progress& progress);

}  // namespace causeway::diloco
