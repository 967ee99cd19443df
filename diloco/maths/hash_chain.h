// The hash chain over a history: equal ends, equal histories.
#pragma once

#include <string>

#include "diloco/maths/digest.h"

namespace causeway::diloco {

Digest chain_start(const std::string& run_id);  // SHA-256(run id)
// SHA-256(previous || content)
Digest chain_next(const Digest& previous, const std::string& content);

}  // namespace causeway::diloco
