#include "apps/run/doctor/checks.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "apps/run/learning/recipe.h"
#include "apps/run/page/format.h"
#include "apps/run/region/parse_object.h"
#include "diloco/maths/digest.h"
#include "intra/cuda/jobs/backend.h"
#include "intra/data/data_reading.h"

namespace causeway::run {
namespace {

// Ends by itself when an import hangs.
constexpr char kVersions[] =
    "timeout 30 %s -c 'import importlib.metadata as m, json, platform\n"
    "found = {\"python\": platform.python_version()}\n"
    "for name in (\"causeway\", \"torch\", \"numpy\", \"jax\"):\n"
    "    try: found[name] = m.version(name)\n"
    "    except m.PackageNotFoundError: pass\n"
    "print(json.dumps(found))' 2>/dev/null";

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? "'\\''" : std::string(1, letter);
  return text + "'";
}

// Empty: it did not run.
std::map<std::string, std::string> python_packages(const std::string& python) {
  std::string command = kVersions;
  command.replace(command.find("%s"), 2, quoted(python));
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 512> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  std::map<std::string, std::string> packages;
  if (const auto found = parse_object(text)) {
    for (const auto& [name, version] : found->items()) {
      if (version.is_string()) packages[name] = version.get<std::string>();
    }
  }
  return packages;
}

Finding judge_packages(const std::map<std::string, std::string>& packages,
                       const std::string& python) {
  if (packages.empty())
    return warn("Python", python + " does not run",
                "name the interpreter of your program with --python, or ignore this if it is "
                "written in C or C++");
  std::string text;
  for (const auto& [name, version] : packages)
    text += (text.empty() ? "" : ", ") + name + " " + version;
  if (!packages.contains("causeway"))
    return warn("Python", text + "; no package causeway",
                "install the package, or name the right interpreter with --python");
  return ok("Python", text);
}

// Of one sequence in each step, how often the run reads all.
std::string passes(const Config& config, std::uint64_t tokens) {
  const double read = static_cast<double>(config.train.steps) * config.train.batch *
                      static_cast<double>(config.model.context) *
                      static_cast<double>(config.data.per_region ? 1 : config.regions.size());
  return format_fixed(read / static_cast<double>(tokens), 2);
}

SharedData shown(const diloco::DataDigest& data) {
  return {.whole = data.whole ? diloco::to_hex(*data.whole) : "",
          .sample = diloco::to_hex(data.sample)};
}

// Of every byte, or of a sample where there is too much that was never read.
void look_at_data(const Config& config, const TrainerLook& look, TrainerFigures& figures) {
  try {
    intra::DataOptions options = worker_options(config, look.region, 0, look.directory).data;
    if (look.whole_data) options.digest_at_once_bytes = ~std::uint64_t{0};
    const intra::Dataset data(options);
    std::optional<intra::Dataset> common;
    if (!options.validation_files.empty()) common.emplace(intra::common_validation(options));
    const intra::DataReading reading(options, data, common ? &*common : nullptr, look.directory);
    const diloco::DataDigests digests = reading.digests();
    const std::string text = format_count(data.train_tokens()) + " tokens to train on, read " +
                             passes(config, data.train_tokens()) + " times; " +
                             format_count(data.validation_tokens()) + " to validate on; ";
    const std::string unread = format_bytes(static_cast<double>(reading.unread_bytes()));
    figures.findings.push_back(
        digests.of_region->whole
            ? ok("data", text + "every byte read, digest " + diloco::short_name(*digests.of_region))
            : warn(
                  "data",
                  text + "a sample of it read (" + unread +
                      " are more than data.digest_gib), digest of " +
                      diloco::short_name(*digests.of_region),
                  "`causeway doctor --whole-data` reads all of it, once; a worker does so while it "
                  "trains"));
    if (digests.of_run) figures.data = shown(*digests.of_run);
  } catch (const std::exception& error) {
    figures.findings.push_back(
        fail("data", error.what(), "every region needs data.files, or data_files of its own"));
  }
}

void look_at_device(const RegionConfig& region, Findings& findings) {
  if (region.device != intra::Device::cuda) return;
  for (std::uint32_t rank = 0; rank < region.workers; ++rank) {
    try {
      findings.push_back(
          ok(fmt::format("GPU {}", rank), intra::cuda::make_cuda_backend(rank)->device()));
    } catch (const std::exception& error) {
      findings.push_back(fail(fmt::format("GPU {}", rank), error.what(),
                              "install the driver, or set regions.device to cpu"));
      return;
    }
  }
}

}  // namespace

Findings judge_settings(const Config& config) {
  Findings findings;
  for (std::string& concern : concerns(config))
    findings.push_back(warn("settings", std::move(concern), ""));
  return findings;
}

TrainerFigures look_at_trainer(const Config& config, const TrainerLook& look) {
  TrainerFigures figures;
  if (config.built_in_trainer()) {
    look_at_data(config, look, figures);
    look_at_device(region_in(config, look.region), figures.findings);
  } else {
    figures.packages = python_packages(look.python);
    figures.findings.push_back(judge_packages(figures.packages, look.python));
  }
  return figures;
}

}  // namespace causeway::run
