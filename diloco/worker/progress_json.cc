#include "diloco/worker/progress_json.h"

#include <nlohmann/json.hpp>

namespace causeway::diloco {

nlohmann::ordered_json to_json(const Progress& progress) {
  using Json = nlohmann::ordered_json;
  return {{"step", progress.step()},
          {"round", progress.round()},
          {"loss", progress.loss()},
          {"tokens_per_s", progress.tokens_per_s()},
          {"tokens", progress.tokens()},
          {"compute_s", progress.compute_s()},
          {"wait_s", progress.wait_s()},
          {"in_region_s", progress.in_region_s()},
          {"outer_s", progress.outer_s()},
          {"memory_peak_bytes", progress.memory_peak_bytes()},
          {"device_memory_peak_bytes", progress.device_memory_peak_bytes() > 0
                                           ? Json(progress.device_memory_peak_bytes())
                                           : Json(nullptr)},
          {"val_loss", progress.has_val_loss() ? Json(progress.val_loss()) : Json(nullptr)},
          {"mfu", progress.mfu() > 0 ? Json(progress.mfu()) : Json(nullptr)},
          {"phase", progress.phase()}};
}

}  // namespace causeway::diloco
