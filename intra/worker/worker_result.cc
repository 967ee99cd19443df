#include "intra/worker/worker_result.h"

#include <sys/resource.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include <spdlog/spdlog.h>

#include "diloco/files/file_io.h"
#include "diloco/worker/progress_json.h"

namespace causeway::intra {
namespace {

void write(const std::filesystem::path& file, const nlohmann::json& json,
           diloco::Durability durability) {
  diloco::replace_file(file, json.dump(2) + "\n", durability);
}

}  // namespace

std::uint64_t memory_peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

void write_result(const std::filesystem::path& directory, const WorkerResult& result) {
  write(directory / "result.json",
        {{"steps", result.steps},
         {"tokens", result.tokens},
         {"rounds", result.rounds},
         {"run_steps", result.run_steps},
         {"val_loss", result.val_loss},
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
    return WorkerResult{
        .steps = json.at("steps"),
        .tokens = json.at("tokens"),
        .rounds = json.at("rounds"),
        .run_steps = json.at("run_steps"),
        .val_loss = loss.is_null() ? std::nan("") : loss.get<double>(),
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
        {{"version", progress.round}, {"progress", diloco::to_json(progress)}},
        diloco::Durability::visible);
}

}  // namespace causeway::intra
