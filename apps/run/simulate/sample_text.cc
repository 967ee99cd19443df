#include "apps/run/simulate/sample_text.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "apps/run/region/process.h"
#include "apps/run/region/region_files.h"
#include "inter/base/text.h"

namespace causeway::run {

asio::awaitable<std::string> sample_text(asio::any_io_executor executor, const Launch& launch,
                                         std::uint32_t tokens) {
  const Config& config = launch.config;
  const bool text =
      config.data.format == intra::DataOptions::Format::text || !config.origin.tokenizer.empty();
  if (tokens == 0 || !text || config.train.timed_step_ms > 0 || !config.built_in_trainer())
    co_return "";
  const std::filesystem::path& out = launch.directory.path();
  ProcessOptions generate;
  generate.arguments = {launch.program.string(), "generate",
                        (out / "checkpoints" / "final").string(), "--tokens",
                        std::to_string(tokens)};
  generate.environment = {{"OMP_NUM_THREADS", std::to_string(launch.cores)}};
  generate.output = out / "sample.txt";
  generate.log = out / "generate.log";
  std::filesystem::remove(generate.output);
  Process process(std::move(executor), generate);
  const ExitStatus status = co_await process.wait();
  if (status.ok()) co_return inter::printable(read_text_file(generate.output));
  std::fprintf(stderr,
               "causeway: there is no sample of text, because generate ended with %s; see %s\n",
               to_string(status).c_str(), generate.log.c_str());
  co_return "";
}

}  // namespace causeway::run
