#include "diloco/worker/worker_report.h"

namespace causeway::diloco {

worker_wire::Report encode(const Progress& progress) {
  worker_wire::Report message;
  message.set_step(progress.step);
  message.set_round(progress.round);
  message.set_loss(progress.loss);
  message.set_tokens_per_s(progress.tokens_per_s);
  message.set_tokens(progress.tokens);
  message.set_compute_s(progress.compute_s);
  message.set_wait_s(progress.wait_s);
  message.set_in_region_s(progress.in_region_s);
  message.set_outer_s(progress.outer_s);
  message.set_memory_peak_bytes(progress.memory_peak_bytes);
  message.set_device_memory_peak_bytes(progress.device_memory_peak_bytes);
  message.set_mfu(progress.mfu);
  message.set_phase(progress.phase);
  if (progress.val_loss) message.set_val_loss(*progress.val_loss);
  message.set_val_version(progress.val_version);
  return message;
}

Progress decode(const worker_wire::Report& message) {
  return {.step = message.step(),
          .round = message.round(),
          .loss = message.loss(),
          .tokens_per_s = message.tokens_per_s(),
          .tokens = message.tokens(),
          .compute_s = message.compute_s(),
          .wait_s = message.wait_s(),
          .in_region_s = message.in_region_s(),
          .outer_s = message.outer_s(),
          .memory_peak_bytes = message.memory_peak_bytes(),
          .device_memory_peak_bytes = message.device_memory_peak_bytes(),
          .mfu = message.mfu(),
          .val_loss = message.has_val_loss() ? std::optional(message.val_loss()) : std::nullopt,
          .val_version = message.val_version(),
          .phase = message.phase()};
}

}  // namespace causeway::diloco
