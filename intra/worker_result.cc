#include "intra/worker_result.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include <spdlog/spdlog.h>

#include "diloco/file_io.h"

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
         {"val_loss", result.val_loss},
         {"compute_s", result.compute_s},
         {"wait_s", result.wait_s},
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
    return WorkerResult{.steps = json.at("steps"),
                        .tokens = json.at("tokens"),
                        .rounds = json.at("rounds"),
                        .val_loss = loss.is_null() ? std::nan("") : loss.get<double>(),
                        .compute_s = json.at("compute_s"),
                        .wait_s = json.at("wait_s"),
                        .params_digest = json.at("params_digest"),
                        .timed_steps = json.at("timed_steps")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void record_encodings(const std::filesystem::path& directory, diloco::Round round,
                      std::span<const TensorEncoding> encodings) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorEncoding& encoding : encodings) {
    const double relative_error = encoding.stats.relative_squared_error();
    tensors.push_back({{"tensor", encoding.tensor},
                       {"codec", encoding.spec},
                       {"stepped_up", encoding.stepped_up},
                       {"bytes", encoding.bytes},
                       {"relative_squared_error", relative_error},
                       {"residual_norm", std::sqrt(encoding.stats.error_norm_squared)}});
    if (!encoding.stepped_up) continue;
    spdlog::warn("round {}: {} went beyond codec.error_max with its own codec and was sent as {}",
                 round, encoding.tensor, encoding.spec);
  }
  // A record of what happened, not part of it: without room for it training goes on.
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  std::ofstream out(directory / "compression.jsonl", std::ios::app);
  out << nlohmann::json{{"round", round}, {"tensors", std::move(tensors)}}.dump() << '\n';
  if (!out.flush())
    spdlog::warn("cannot append to {}; check the disk and its permissions",
                 (directory / "compression.jsonl").string());
}

void write_status(const std::filesystem::path& directory, const diloco::Progress& progress) {
  write(directory / "status.json",
        {{"version", progress.round},
         {"progress",
          {{"step", progress.step},
           {"round", progress.round},
           {"loss", progress.loss},
           {"tokens_per_s", progress.tokens_per_s},
           {"tokens", progress.tokens},
           {"compute_s", progress.compute_s},
           {"wait_s", progress.wait_s},
           {"phase", progress.phase}}}},
        diloco::Durability::visible);
}

}  // namespace causeway::intra
