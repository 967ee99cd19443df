// The newest snapshot of a region, for whoever goes on from it: `causeway export`, `causeway
// import` and `causeway coordinator --fork`. The file ledger/snapshot says which one it is, and
// nobody signs that file. So a snapshot is used only if it is the state that the region's signed
// ledger names.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/run/verify/region_ledger.h"
#include "diloco/files/sealed_bytes.h"
#include "diloco/log/messages.h"
#include "diloco/log/record.h"
#include "diloco/maths/digest.h"
#include "diloco/maths/layout.h"

namespace causeway::run {

struct NamedSnapshot {
  RegionLedger ledger;
  diloco::Snapshot snapshot;
  std::filesystem::path file;   // in the region's spool; a run that goes on may have let it go
  std::string pointer;          // ledger/snapshot, as it named this one
  diloco::MappedBytes content;  // stays what it is, whatever the region does meanwhile
};

// Of a region's directory. `certificates`: to check the ledger's signatures with. Throws
// std::system_error (diloco::Errc::lineage) saying what is missing there or what does not agree,
// and what signed_states() throws.
NamedSnapshot read_named_snapshot(const std::filesystem::path& region_directory,
                                  const std::filesystem::path& certificates);

// The region's directory with the newest snapshot: of a run's directory, or that of one region.
// Where none has one, the first. Throws what region_directories() throws.
std::filesystem::path region_with_newest_snapshot(const std::filesystem::path& path);

// Certificates to check a region's ledger with: `given` if somebody named them; those beside the
// region; `others`. Empty: there are none in any of these.
std::filesystem::path certificates_for(const std::filesystem::path& region_directory,
                                       const std::filesystem::path& given,
                                       const std::filesystem::path& others);

// What `causeway verify` finds in regions' newest snapshots: whether one is the state that the
// record of its version says, and where two of one version differ.

struct SnapshotLeaves {
  diloco::Round version = 0;
  std::map<std::string, std::vector<diloco::Digest>> spans;  // leaves of anchor and momentum
  diloco::Digest state{};
  std::optional<diloco::Layout> layout;  // none: the file does not name the model's tensors
};

// Of a file with anchor and momentum. Throws Errc::bad_checkpoint naming it if it is damaged.
SnapshotLeaves read_leaves(const std::filesystem::path& file);
// Of a training state: of its outer file, which is opened with it. What the state itself holds is
// read and checked as well.
SnapshotLeaves read_state_leaves(const std::filesystem::path& path);
// Of a snapshot's bytes; `name` is for messages. Throws Errc::bad_checkpoint if they are damaged.
SnapshotLeaves read_snapshot_leaves(const std::filesystem::path& name,
                                    std::span<const std::byte> content);
// The newest snapshot in a region's directory; none if there is none. Throws Errc::bad_checkpoint
// naming the file if it is damaged.
std::optional<SnapshotLeaves> read_snapshot_leaves(const std::filesystem::path& region_directory);

// The first slice that differs, in words: span, elements of it, and the tensors there. Nothing if
// there is none.
std::optional<std::string> first_difference(const SnapshotLeaves& a, const SnapshotLeaves& b);

}  // namespace causeway::run
