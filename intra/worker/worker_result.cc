#include "intra/worker/worker_result.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "diloco/files/file_io.h"
#include "diloco/worker/progress_json.h"

namespace causeway::intra {
namespace {

void write(const std::filesystem::path& file, const nlohmann::json& json,
           diloco::Durability durability) {
  diloco::replace_file(file, json.dump(2) + "\n", durability);
}

}  // namespace

void write_result(const std::filesystem::path& directory, const WorkerResult& result) {
  write(directory / "result.json",
        {{"steps", result.steps},
         {"tokens", result.tokens},
         {"rounds", result.rounds},
         {"run_steps", result.run_steps},
         {"val_loss", result.val_loss},
         {"common_val_loss", result.common_val_loss ? nlohmann::json(*result.common_val_loss)
                                                    : nlohmann::json(nullptr)},
         {"compute_s", result.compute_s},
         {"wait_s", result.wait_s},
         {"in_region_s", result.in_region_s},
         {"outer_s", result.outer_s},
         {"memory_peak_bytes", result.memory_peak_bytes},
         {"device_memory_peak_bytes", result.device_memory_peak_bytes},
         {"tokens_per_s", result.tokens_per_s},
         {"mfu", result.mfu > 0 ? nlohmann::json(result.mfu) : nlohmann::json(nullptr)},
         {"params_digest", result.params_digest},
         {"timed_steps", result.timed_steps}},
        diloco::Durability::on_disk);
}

std::optional<WorkerResult> read_result(const std::filesystem::path& directory) {
  const auto text = diloco::read_file(directory / "result.json");
  const auto json = nlohmann::json::parse(text.value_or(""), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    const auto& loss = json.at("val_loss");
    const auto common = json.find("common_val_loss");
    const bool has_common = common != json.end() && common->is_number();
    return WorkerResult{
        .steps = json.at("steps"),
        .tokens = json.at("tokens"),
        .rounds = json.at("rounds"),
        .run_steps = json.at("run_steps"),
        .val_loss = loss.is_null() ? std::nan("") : loss.get<double>(),
        .common_val_loss = has_common ? std::optional(common->get<double>()) : std::nullopt,
        .compute_s = json.at("compute_s"),
        .wait_s = json.at("wait_s"),
        .in_region_s = json.at("in_region_s"),
        .outer_s = json.at("outer_s"),
        .memory_peak_bytes = json.at("memory_peak_bytes"),
        .device_memory_peak_bytes = json.value("device_memory_peak_bytes", std::uint64_t{0}),
        .tokens_per_s = json.value("tokens_per_s", 0.0),
        .mfu = json.at("mfu").is_null() ? 0 : json.at("mfu").get<double>(),
        .params_digest = json.at("params_digest"),
        .timed_steps = json.at("timed_steps")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void write_status(const std::filesystem::path& directory, const diloco::Progress& progress) {
  write(directory / "status.json",
        {{"version", progress.round}, {"progress", diloco::to_json(progress)}},
        diloco::Durability::visible);
}

}  // namespace causeway::intra
