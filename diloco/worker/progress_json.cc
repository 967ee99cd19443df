#include "diloco/worker/progress_json.h"

#include <nlohmann/json.hpp>

namespace causeway::diloco {
namespace {

// Every number: its key, and how it is read and set.
template <typename Each>
void each_number(Each each) {
  using P = Progress;
  each("step", &P::step, &P::set_step);
  each("round", &P::round, &P::set_round);
  each("loss", &P::loss, &P::set_loss);
  each("tokens_per_s", &P::tokens_per_s, &P::set_tokens_per_s);
  each("tokens", &P::tokens, &P::set_tokens);
  each("compute_s", &P::compute_s, &P::set_compute_s);
  each("wait_s", &P::wait_s, &P::set_wait_s);
  each("in_region_s", &P::in_region_s, &P::set_in_region_s);
  each("outer_s", &P::outer_s, &P::set_outer_s);
  each("save_s", &P::save_s, &P::set_save_s);
  each("memory_peak_bytes", &P::memory_peak_bytes, &P::set_memory_peak_bytes);
  each("device_memory_peak_bytes", &P::device_memory_peak_bytes, &P::set_device_memory_peak_bytes);
  each("val_loss", &P::val_loss, &P::set_val_loss);
  each("mfu", &P::mfu, &P::set_mfu);
}

}  // namespace

nlohmann::ordered_json to_json(const Progress& progress) {
  nlohmann::ordered_json json;
  each_number([&](const char* key, auto get, auto) { json[key] = (progress.*get)(); });
  for (const char* unknown : {"device_memory_peak_bytes", "mfu"})
    if (json[unknown] == 0) json[unknown] = nullptr;
  if (!progress.has_loss()) json["loss"] = nullptr;
  if (!progress.has_val_loss()) json["val_loss"] = nullptr;
  json["phase"] = progress.phase();
  return json;
}

Progress progress_of(const nlohmann::json& json) {
  Progress progress;
  each_number([&](const char* key, auto get, auto set) {
    const auto found = json.find(key);
    if (found != json.end() && found->is_number())
      (progress.*set)(found->template get<decltype((progress.*get)())>());
  });
  const auto phase = json.find("phase");
  if (phase != json.end() && phase->is_string()) progress.set_phase(phase->get<std::string>());
  return progress;
}

}  // namespace causeway::diloco
