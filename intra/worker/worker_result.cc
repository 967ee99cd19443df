#include "intra/worker/worker_result.h"

#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"
#include "diloco/worker/progress_json.h"

namespace causeway::intra {
namespace {

using Json = nlohmann::ordered_json;

// Throws nlohmann::json::exception if what every trainer tells is missing.
WorkerResult parse_result(const nlohmann::json& json) {
  WorkerResult result{.progress = diloco::progress_of(json),
                      .run_id = json.value("run", ""),
                      .params_digest = json.at("params_digest")};
  result.progress.set_step(json.at("steps"));
  result.progress.set_round(json.at("rounds"));
  if (!json.contains("val_loss")) return result;
  if (result.by_program()) result.progress.set_val_loss(std::nan(""));
  result.run_steps = json.at("run_steps");
  result.timed_steps = json.at("timed_steps");
  const auto& common = json.at("common_val_loss");
  if (common.is_number()) result.common_val_loss = common.get<double>();
  return result;
}

}  // namespace

double WorkerResult::utilisation() const {
  const double total_s = progress.compute_s() + progress.wait_s();
  return total_s > 0 ? progress.compute_s() / total_s : 0;
}

Json to_json(const WorkerResult& result) {
  Json json = diloco::to_json(result.progress);
  json["steps"] = result.progress.step();
  json["rounds"] = result.progress.round();
  json["params_digest"] = result.params_digest;
  for (const char* passing : {"step", "round", "loss", "phase"}) json.erase(passing);
  if (result.by_program()) {
    for (const char* unknown : {"val_loss", "in_region_s", "mfu", "device_memory_peak_bytes"})
      json.erase(unknown);
    return json;
  }
  json["run_steps"] = result.run_steps;
  json["common_val_loss"] = result.common_val_loss ? Json(*result.common_val_loss) : Json(nullptr);
  json["timed_steps"] = result.timed_steps;
  return json;
}

void write_result(const std::filesystem::path& directory, const WorkerResult& result) {
  Json json = to_json(result);
  const auto device_memory = json.find("device_memory_peak_bytes");
  if (device_memory != json.end() && device_memory->is_null()) *device_memory = 0;  // as ever here
  json.update(
      {{"run", result.run_id}, {"format", diloco::kJsonFormat}, {"xxh3", diloco::kNoChecksum}});
  diloco::replace_file(directory / "result.json", diloco::json_with_checksum(json.dump(2) + "\n"),
                       diloco::Durability::on_disk);
}

std::optional<WorkerResult> read_result(const std::filesystem::path& directory) {
  const auto text = diloco::read_file(directory / "result.json");
  if (diloco::checksum_of_json(text.value_or("")) == diloco::Checksum::wrong) {
    spdlog::error("{} is damaged: its checksum is not that of its text. It counts as missing",
                  (directory / "result.json").string());
    return std::nullopt;
  }
  const auto json = nlohmann::json::parse(text.value_or(""), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    return parse_result(json);
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void write_status(const std::filesystem::path& directory, const diloco::Progress& progress) {
  const Json json = {{"version", progress.round()}, {"progress", diloco::to_json(progress)}};
  diloco::replace_file(directory / "status.json", json.dump(2) + "\n", diloco::Durability::visible);
}

}  // namespace causeway::intra
