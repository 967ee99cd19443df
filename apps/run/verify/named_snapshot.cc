#include "apps/run/verify/named_snapshot.h"

#include <algorithm>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "apps/run/verify/kept_payloads.h"
#include "apps/run/verify/region_ledger.h"
#include "apps/run/verify/signed_states.h"
#include "diloco/files/error.h"
#include "diloco/ledger/ledger_files.h"
#include "inter/base/text.h"
#include "inter/blob/spool_files.h"
#include "intra/outer/outer_state.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_snapshot(const fs::path& region, const std::string& why) {
  throw std::system_error(make_error_code(diloco::Errc::lineage), region.string() + why);
}

// What a forked run began with, or one whose regions brought different initial values; no round
// follows version 0 yet.
const diloco::Origin* origin_in(const RegionLedger& ledger) {
  for (const auto& entry : ledger.entries) {
    const auto* members = std::get_if<diloco::Membership>(&entry.entry.body);
    if (members != nullptr && members->origin) return &*members->origin;
  }
  return nullptr;
}

// By the record of its round. No record follows the last round: it is what the region signed when
// it finished.
std::optional<diloco::Digest> named_state(const RegionLedger& ledger, const SignedStates& own,
                                          diloco::Round version) {
  const auto records = read_records(ledger).standing;
  if (version < records.size()) return records[version]->state;
  if (own.finished && own.finished->version == version) return own.finished->state;
  const diloco::Origin* origin = origin_in(ledger);
  if (version == 0 && origin != nullptr) return origin->state;
  return std::nullopt;
}

SignedStates check_signatures(const RegionLedger& ledger, const fs::path& certificates) {
  if (certificates.empty()) {
    refuse_snapshot(ledger.directory,
                    ": there are no certificates to check its ledger with, and unsigned it says "
                    "nothing of its snapshot: name the directory with " +
                        ledger.name + ".crt (--certificates; with --fork, --fork-certificates)");
  }
  SignedStates own = signed_states(ledger, read_records(ledger), certificates);
  if (!own.problem.empty()) refuse_snapshot(ledger.directory, ": " + own.problem);
  return own;
}

void check_content(const NamedSnapshot& named) {
  // Not its version: what a run was forked from has another one in its parent.
  if (read_snapshot_leaves(named.file, named.content.bytes()).state == named.snapshot.state) return;
  refuse_snapshot(named.file,
                  " is not the state that ledger/snapshot names: it was changed. Take "
                  "another region's directory");
}

diloco::MappedBytes open_content(const fs::path& region, const inter::BlobId& blob) {
  if (auto content = KeptPayloads({region}).open(blob)) return std::move(*content);
  refuse_snapshot(region, " does not hold the snapshot that its ledger/snapshot names, " +
                              inter::blob_path(region / "spool", blob).string() +
                              ": take another region's directory");
}

struct HeldSnapshot {
  std::string pointer;
  diloco::Snapshot snapshot;
  diloco::MappedBytes content;
};

// A run that goes on lets go of a snapshot once it has a newer one, but writes over none that
// somebody has open.
HeldSnapshot hold_snapshot(const fs::path& region) {
  const fs::path file = region / "ledger" / "snapshot";
  while (const auto pointer = diloco::read_file(file)) {
    const diloco::Snapshot snapshot = diloco::parse_snapshot(*pointer, file);
    try {
      return {*pointer, snapshot, open_content(region, snapshot.blob)};
    } catch (const std::system_error&) {
      if (diloco::read_file(file) == pointer) throw;  // otherwise the newer one is taken
    }
  }
  refuse_snapshot(region,
                  " has no snapshot yet (ledger/snapshot is not there), so there is nothing to "
                  "go on from: the run confirms one every train.checkpoint_rounds rounds and at "
                  "its end");
}

}  // namespace

NamedSnapshot read_named_snapshot(const fs::path& region_directory, const fs::path& certificates) {
  // First the snapshot, at once: to check a long ledger may take longer than the run keeps it. What
  // the run adds to its ledger meanwhile takes nothing away.
  HeldSnapshot held = hold_snapshot(region_directory);
  NamedSnapshot named{.ledger = read_region_ledger(region_directory),
                      .snapshot = held.snapshot,
                      .file = inter::blob_path(region_directory / "spool", held.snapshot.blob),
                      .pointer = std::move(held.pointer),
                      .content = std::move(held.content)};
  const std::string which = fmt::format("the snapshot of version {}", named.snapshot.version);
  const SignedStates own = check_signatures(named.ledger, certificates);
  const auto state = named_state(named.ledger, own, named.snapshot.version);
  if (!state) {
    refuse_snapshot(region_directory,
                    ": nothing that " + named.ledger.name + " signed says which state " + which +
                        " is, so it is not used: take another region's directory");
  }
  if (*state != named.snapshot.state) {
    refuse_snapshot(region_directory,
                    ": " + which +
                        " that ledger/snapshot names is not the state that the signed "
                        "ledger has for it: it was changed, or is another run's. Take "
                        "another region's directory");
  }
  check_content(named);
  return named;
}

fs::path region_with_newest_snapshot(const fs::path& path) {
  const std::vector<fs::path> regions = region_directories({path});
  const fs::path* newest = &regions.front();
  std::optional<diloco::Round> version;
  for (const fs::path& region : regions) {
    const auto snapshot = diloco::read_snapshot(region / "ledger" / "snapshot");
    if (!snapshot || (version && snapshot->version <= *version)) continue;
    newest = &region;
    version = snapshot->version;
  }
  return *newest;
}

fs::path certificates_for(const fs::path& region_directory, const fs::path& given,
                          const fs::path& others) {
  if (!given.empty()) return given;
  const fs::path beside = certificates_beside(region_directory);
  if (!beside.empty()) return beside;
  return fs::exists(others / "ca.crt") ? others : fs::path();
}

namespace {

std::vector<diloco::Digest> leaves_of(const intra::SafetensorsReader& file,
                                      const std::string& span) {
  std::size_t count = 1;
  for (const std::int64_t extent : file.shape(span)) count *= static_cast<std::size_t>(extent);
  // A layout pads to whole leaves; of anything else the digest is another one. A span may be most
  // of what memory can hold, so there is never a second copy of it.
  std::vector<float> values((count + diloco::kLeafElements - 1) / diloco::kLeafElements *
                            diloco::kLeafElements);
  file.read(span, std::span(values).first(count));
  return diloco::merkle_leaves(values);
}

std::string tensors_at(const diloco::Layout& layout, std::size_t begin) {
  std::string names;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    const bool touched = tensor.offset < begin + diloco::kLeafElements &&
                         begin < tensor.offset + tensor.spec.count();
    if (touched) inter::append_item(names, tensor.spec.name);
  }
  return names.empty() ? "padding" : names;
}

SnapshotLeaves read(const intra::StateReader& file) {
  SnapshotLeaves snapshot;
  file.read("version", snapshot.version);
  for (const char* span : {"anchor", "momentum"})
    snapshot.spans[span] = leaves_of(file.tensors(), span);
  snapshot.state = diloco::state_digest(diloco::merkle_root(snapshot.spans["anchor"]),
                                        diloco::merkle_root(snapshot.spans["momentum"]));
  if (file.has("tensors"))
    snapshot.layout = intra::parse_tensors(file.get("tensors"), file.get("layout"));
  return snapshot;
}

}  // namespace

SnapshotLeaves read_leaves(const std::filesystem::path& path) {
  return read(intra::StateReader(path));
}

SnapshotLeaves read_state_leaves(const std::filesystem::path& path) {
  const intra::WholeState state = intra::open_state(path);
  SnapshotLeaves leaves = read(state.outer);
  state.own.read("version", leaves.version);
  const intra::SafetensorsReader& own = state.own.tensors();
  for (const std::string& name : own.names())
    if (!leaves.spans.contains(name)) leaves_of(own, name);
  return leaves;
}

SnapshotLeaves read_snapshot_leaves(const std::filesystem::path& name,
                                    std::span<const std::byte> content) {
  return read(intra::StateReader(name, content));
}

std::optional<SnapshotLeaves> read_snapshot_leaves(const std::filesystem::path& region_directory) {
  const std::filesystem::path path = intra::snapshot_file(region_directory);
  if (!std::filesystem::exists(path)) return std::nullopt;
  return read_leaves(path);
}

std::optional<std::string> first_difference(const SnapshotLeaves& a, const SnapshotLeaves& b) {
  for (const auto& [span, leaves] : a.spans) {
    const auto& others = b.spans.at(span);
    const auto [here, there] =
        std::mismatch(leaves.begin(), leaves.end(), others.begin(), others.end());
    if (here == leaves.end() && there == others.end()) continue;
    const std::size_t begin =
        static_cast<std::size_t>(here - leaves.begin()) * diloco::kLeafElements;
    std::string where =
        fmt::format("{}, elements {} to {}", span, begin, begin + diloco::kLeafElements - 1);
    if (a.layout) where += " (" + tensors_at(*a.layout, begin) + ")";
    return where;
  }
  return std::nullopt;
}

}  // namespace causeway::run
