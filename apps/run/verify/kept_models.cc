#include "apps/run/verify/kept_models.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include "diloco/maths/digest.h"
#include "inter/blob/spool_files.h"
#include "intra/outer/state_file.h"
#include "intra/published/checkpoint.h"
#include "intra/published/companions.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

class KeptModels {
 public:
  KeptModels(const History& history, const VerifiedAnchors& anchors,
             const std::vector<fs::path>& runs, Findings& findings)
      : history_(history), anchors_(anchors), runs_(runs), findings_(findings) {}

  void check() {
    bool any = false, all = true;
    for (const AuditedRegion& region : history_.regions) {
      const bool has = fs::exists(final_of(region));
      any = any || has;
      all = all && has;
    }
    for (const AuditedRegion& region : history_.regions) {
      const fs::path directory = final_of(region);
      const std::string name = "model of " + region.name();
      if (fs::exists(directory)) {
        findings_.reads(region.name(), [&] { check_model(region.name(), name, directory); });
        continue;
      }
      if (any && region.own && region.own->finished)
        findings_.lack(directory.string() + ": " + region.name() +
                       " finished, and others have their model");
      findings_.cover(name, "there is none (the built-in trainer writes it when the run is over)");
    }
    for (const fs::path& run : runs_) {
      const fs::path directory = run / "checkpoints" / "final";
      const std::string owner = "the run " + run.string();
      if (!fs::exists(directory)) {
        // `simulate` writes its summary last.
        if (all && (fs::is_symlink(directory) || fs::exists(run / "summary.json")))
          findings_.lack(directory.string() +
                         ": the run is over, and its copy of the model is gone");
        continue;
      }
      findings_.reads(owner, [&] { check_model(owner, "model of the run", directory); });
      check_copies(owner, directory);
    }
  }

 private:
  // It is a copy of a region's: each file is the same as one of that name there.
  void check_copies(const std::string& owner, const fs::path& directory) {
    for (const auto& entry : fs::directory_iterator(directory)) {
      std::vector<fs::path> originals;
      for (const AuditedRegion& region : history_.regions) {
        const fs::path original = final_of(region) / entry.path().filename();
        if (fs::exists(original)) originals.push_back(original);
      }
      const bool copied = std::ranges::any_of(originals, [&](const fs::path& original) {
        return fs::file_size(original) == entry.file_size() &&
               inter::hash_file(original, entry.file_size()) ==
                   inter::hash_file(entry.path(), entry.file_size());
      });
      if (!copied)
        findings_.differ(owner + ": " + entry.path().string() + " is not that of any region");
    }
  }

  // Its tensors are the anchor of a snapshot whose state is the agreed one.
  void check_model(const std::string& owner, const std::string& name, const fs::path& directory) {
    const intra::LoadedModel model = intra::load_model(directory);
    for (const std::string& file : intra::changed_companions(directory))
      findings_.differ(owner + ": " + (directory / file).string() +
                       " is not the one that was written with the weights");
    const auto round = model.metadata.find("round");
    diloco::Round version = 0;
    const bool known =
        round != model.metadata.end() &&
        std::from_chars(round->second.data(), round->second.data() + round->second.size(), version)
                .ec == std::errc();
    const std::string which = known ? version_words(version) : "an unknown version";
    if (known && version > history_.rounds())
      return findings_.differ(owner + ": its model is of " + which + ", but the ledgers end at " +
                              version_words(history_.rounds()) + ": records are missing");
    const auto anchor = known ? anchors_.find(version) : anchors_.end();
    if (anchor != anchors_.end()) {
      if (diloco::merkle_leaves(model.params) != *anchor->second)
        return findings_.differ(owner + ": its model is not the state of " + which);
      return findings_.cover(name, "the weights of " + which);
    }
    findings_.cover(name, "of " + which + ", not compared");
    findings_.lack("a snapshot of " + which + " with the agreed state, to compare " + name +
                   " with");
  }

  const History& history_;
  const VerifiedAnchors& anchors_;
  const std::vector<fs::path>& runs_;
  Findings& findings_;
};

}  // namespace

fs::path final_of(const AuditedRegion& region) {
  return intra::checkpoint_directory(region.ledger.directory) / "final";
}

void check_kept_models(const History& history, const VerifiedAnchors& anchors,
                       const std::vector<fs::path>& runs, Findings& findings) {
  KeptModels(history, anchors, runs, findings).check();
}

}  // namespace causeway::run
