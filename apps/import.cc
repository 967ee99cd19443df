// causeway import: what `causeway export` wrote, checked, as a directory to go on from.
#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/run/transfer/import_run.h"

namespace causeway::apps {
namespace {

struct ImportFlags {
  std::filesystem::path archive, directory, certificates;
};

void show(const ImportFlags& flags, const run::Imported& imported) {
  const run::Manifest& manifest = imported.manifest;
  std::cout
      << manifest.region << ": " << imported.entries
      << " entries, all signed by its certificate; its snapshot is the state that they name\n";
  if (flags.certificates.empty())
    std::cout << "the certificates came with the archive: whoever made it could sign anything; "
                 "--certificates DIR checks with yours\n";
  std::cout << "its config.toml is not signed: read it before you use it\n";
  std::cout << "imported run " << manifest.run_id << " as " << manifest.region << " had it, "
            << manifest.rounds << " rounds, snapshot of version " << manifest.version << "\n"
            << "look at it:         causeway ledger " << flags.directory.string() << "\n"
            << "begin from it anew: causeway coordinator CONFIG --region NAME --fork "
            << flags.directory.string() << "\n";
}

}  // namespace

void add_import(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command = app.add_subcommand("import", "Unpack and check what `causeway export` wrote");
  command->add_option("ARCHIVE", flags->archive, "The archive; - is standard input")->required();
  command->add_option("--directory", flags->directory, "Directory to make and unpack into")
      ->required();
  command->add_option("--certificates", flags->certificates,
                      "Directory made by `causeway certs`, to check signatures with (default: the "
                      "archive's own)");
  command->callback([flags, &exit_code] {
    show(*flags, run::import_run(flags->archive, flags->directory, flags->certificates));
    exit_code = 0;
  });
}

}  // namespace causeway::apps
