#include "apps/run/verify/snapshot_leaves.h"

#include <algorithm>
#include <span>

#include "inter/base/text.h"
#include "intra/outer/outer_state.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
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

SnapshotLeaves read(const intra::SafetensorsReader& file, const intra::StateReader& metadata,
                    Tensors which) {
  SnapshotLeaves snapshot;
  metadata.read("version", snapshot.version);
  for (const char* span : {"anchor", "momentum"}) snapshot.spans[span] = leaves_of(file, span);
  snapshot.state = diloco::state_digest(diloco::merkle_root(snapshot.spans["anchor"]),
                                        diloco::merkle_root(snapshot.spans["momentum"]));
  if (which == Tensors::all) {
    for (const std::string& name : file.names())
      if (!snapshot.spans.contains(name)) leaves_of(file, name);
  }
  if (metadata.has("tensors")) {
    snapshot.layout = intra::parse_tensors(metadata.get("tensors"), metadata.get("layout"));
  }
  return snapshot;
}

}  // namespace

SnapshotLeaves read_leaves(const std::filesystem::path& path, Tensors which) {
  return read(intra::SafetensorsReader(path), intra::StateReader(path), which);
}

SnapshotLeaves read_snapshot_leaves(const std::filesystem::path& name,
                                    std::span<const std::byte> content) {
  return read(intra::SafetensorsReader(name, content), intra::StateReader(name, content),
              Tensors::shared);
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
    std::string where = span + ", elements " + std::to_string(begin) + " to " +
                        std::to_string(begin + diloco::kLeafElements - 1);
    if (a.layout) where += " (" + tensors_at(*a.layout, begin) + ")";
    return where;
  }
  return std::nullopt;
}

}  // namespace causeway::run
