#include "intra/worker_result.h"

#include <nlohmann/json.hpp>

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
