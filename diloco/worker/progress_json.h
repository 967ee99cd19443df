// A worker's progress as files show it: status.json, result.json, summary.json.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "diloco/worker/worker_session.h"

namespace causeway::diloco {

// Keys are Progress's fields. A loss that is not a number is null, and so is what is unknown.
nlohmann::ordered_json to_json(const Progress& progress);
// The same back. What is missing, null or of another type is unset.
Progress progress_of(const nlohmann::json& json);

}  // namespace causeway::diloco
