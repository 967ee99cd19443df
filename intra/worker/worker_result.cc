#include "intra/worker/worker_result.h"

#include <spdlog/spdlog.h>
#include <cmath>
#include <nlohmann/json.hpp>

#include "diloco/files/checked_file.h"
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
  const auto or_null = [](bool known, double figure) {
    return known ? nlohmann::json(figure) : nlohmann::json(nullptr);
  };
  nlohmann::json json = {{"steps", result.steps},
                         {"tokens", result.tokens},
                         {"rounds", result.rounds},
                         {"compute_s", result.compute_s},
                         {"wait_s", result.wait_s},
                         {"outer_s", result.outer_s},
                         {"memory_peak_bytes", result.memory_peak_bytes},
                         {"tokens_per_s", result.tokens_per_s},
                         {"params_digest", result.params_digest}};
  if (result.val_loss) {
    json.update({{"run_steps", result.run_steps},
                 {"val_loss", *result.val_loss},
                 {"common_val_loss",
                  or_null(result.common_val_loss.has_value(), result.common_val_loss.value_or(0))},
                 {"in_region_s", result.in_region_s},
                 {"device_memory_peak_bytes", result.device_memory_peak_bytes},
                 {"mfu", or_null(result.mfu > 0, result.mfu)},
                 {"timed_steps", result.timed_steps}});
  }
  json.update({{"format", diloco::kJsonFormat}, {"xxh3", diloco::kNoChecksum}});
  diloco::replace_file(directory / "result.json", diloco::json_with_checksum(json.dump(2) + "\n"),
                       diloco::Durability::on_disk);
}

namespace {

// Throws nlohmann::json::exception if what every trainer tells is missing.
WorkerResult parse_result(const nlohmann::json& json) {
  const auto loss = [&json](const char* name) -> std::optional<double> {
    const auto found = json.find(name);
    if (found == json.end()) return std::nullopt;
    return found->is_number() ? found->get<double>() : std::nan("");
  };
  WorkerResult result{.steps = json.at("steps"),
                      .tokens = json.at("tokens"),
                      .rounds = json.at("rounds"),
                      .val_loss = loss("val_loss"),
                      .compute_s = json.at("compute_s"),
                      .wait_s = json.at("wait_s"),
                      .outer_s = json.at("outer_s"),
                      .memory_peak_bytes = json.at("memory_peak_bytes"),
                      .tokens_per_s = json.value("tokens_per_s", 0.0),
                      .params_digest = json.at("params_digest")};
  if (!result.val_loss) return result;
  const auto known = [](std::optional<double> figure) {
    return figure && !std::isnan(*figure) ? figure : std::nullopt;
  };
  result.run_steps = json.at("run_steps");
  result.common_val_loss = known(loss("common_val_loss"));
  result.in_region_s = json.at("in_region_s");
  result.device_memory_peak_bytes = json.value("device_memory_peak_bytes", std::uint64_t{0});
  result.mfu = known(loss("mfu")).value_or(0);
  result.timed_steps = json.at("timed_steps");
  return result;
}

}  // namespace

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
  write(directory / "status.json",
        {{"version", progress.round()}, {"progress", diloco::to_json(progress)}},
        diloco::Durability::visible);
}

}  // namespace causeway::intra
