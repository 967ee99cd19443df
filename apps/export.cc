// causeway export: a run as one archive, to keep it elsewhere or to go on from it there.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/run/config/config.h"
#include "apps/run/page/format.h"
#include "apps/run/region/output_file.h"
#include "apps/run/transfer/export_run.h"
#include "diloco/files/file_io.h"
#include "inter/base/atomic_file.h"

namespace causeway::apps {
namespace {

struct ExportFlags : run::ExportOptions {
  std::filesystem::path out;
};

run::Exported write_archive(const ExportFlags& flags) {
  if (flags.out == "-") {
    if (::isatty(STDOUT_FILENO) == 1)
      throw run::ConfigError(
          "--out -: the archive is not for a terminal; send it to a program or file");
    return run::export_run(flags, [](std::span<const std::byte> bytes) {
      diloco::write_all(STDOUT_FILENO, bytes, "standard output");
    });
  }
  run::check_output_file("--out", flags.out);
  inter::remove_leftovers_of(flags.out);  // as large as the archive
  diloco::AtomicFile file(flags.out);
  run::Exported exported =
      run::export_run(flags, [&file](std::span<const std::byte> bytes) { file.append(bytes); });
  file.commit(diloco::Durability::on_disk);
  return exported;
}

}  // namespace

void add_export(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand(
      "export",
      "Write a run into one archive: configuration, ledger, newest snapshot, certificates "
      "without keys");
  command
      ->add_option(
          "DIRECTORY", flags->directory,
          "A region's directory, or a run's: then the region with the newest snapshot is exported")
      ->required();
  command->add_option("--out", flags->out, "The archive, in tar's format; - is standard output")
      ->required();
  command->add_option("--config", flags->config,
                      "The run's configuration file (default: the one in the run's directory)");
  command->add_option("--certificates", flags->certificates,
                      "Directory made by `causeway certs`; keys are left out (default: "
                      "certificates/ in the run's directory, otherwise the configuration's)");
  command->callback([flags, &exit_code] {
    const run::Exported exported = write_archive(*flags);
    const run::Manifest& manifest = exported.manifest;
    std::cerr << flags->out.string() << ": run " << manifest.run_id << " as " << manifest.region
              << " has it, " << manifest.rounds << " rounds, snapshot of version "
              << manifest.version << ", "
              << run::format_bytes(static_cast<double>(manifest.bytes())) << "\n";
    for (const std::string& key : exported.left_out)
      std::cerr << "left out of its config.toml: " << key
                << " (a command may hold passwords; whoever imports writes one of their own)\n";
    exit_code = 0;
  });
}

}  // namespace causeway::apps
