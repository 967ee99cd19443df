#include "intra/outer/snapshot_file.h"

#include <algorithm>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOuter = "outer-", kOuterEnd = ".safetensors";
constexpr std::size_t kDrawnDigits = 16;

}  // namespace

fs::path checkpoint_directory(const fs::path& region_directory) {
  return region_directory / "checkpoints";
}

fs::path snapshot_file(const fs::path& region_directory) {
  return checkpoint_directory(region_directory) / "snapshot.safetensors";
}

bool is_outer_name(std::string_view name) {
  if (!name.starts_with(kOuter) || !name.ends_with(kOuterEnd)) return false;
  name = name.substr(kOuter.size(), name.size() - kOuter.size() - kOuterEnd.size());
  const std::size_t version = name.find_first_not_of("0123456789");
  return version != name.npos && version > 0 && name[version] == '-' &&
         name.size() == version + 1 + kDrawnDigits &&
         name.find_first_not_of("0123456789abcdef", version + 1) == name.npos;
}

std::string draw_outer_name(diloco::Round version) {
  return fmt::format("{}{}-{}{}", kOuter, version, diloco::random_name().substr(0, kDrawnDigits),
                     kOuterEnd);
}

void write_snapshot(const fs::path& file, const diloco::Layout& layout, const OuterState& state) {
  write_snapshot(file, snapshot_of(state, layout));
}

SnapshotImage snapshot_of(const OuterState& state, const diloco::Layout& layout) {
  const auto tensor = [](const char* name, std::span<const float> values,
                         const OuterState::Tree& tree) {
    TensorView view = flat_tensor(name, values);
    if (!tree.leaves.empty()) view.hash = tree.root;
    return view;
  };
  return {.tensors = {tensor("anchor", state.anchor, state.trees.anchor),
                      tensor("momentum", state.momentum, state.trees.momentum)},
          .metadata = {{"format", kStateFormat},
                       {"layout", fingerprint(layout)},
                       {"tensors", describe_tensors(layout)},
                       {"version", to_metadata(state.version)},
                       {"digest", diloco::to_hex(state.digest)}},
          .version = state.version,
          .digest = state.digest};
}

void write_snapshot(const fs::path& file, const SnapshotImage& image,
                    const std::function<void(std::size_t)>& tensor_read) {
  write_safetensors(file, image.tensors, image.metadata, {.tensor_read = tensor_read});
}

void offer_outer_file(const fs::path& region_directory, const std::string& outer) {
  diloco::give_second_name(checkpoint_directory(region_directory) / outer,
                           snapshot_file(region_directory));
}

void adopt_snapshot(const StateReader& snapshot, const diloco::Layout& layout,
                    diloco::Round version, const diloco::Digest& digest, OuterState& state) {
  state.intact = false;
  // What a run begins with may be of another model. A later state is the run's by its digest,
  // whoever wrote the rest of the file.
  if (version == 0) check_origin(snapshot, layout);
  snapshot.read_unhashed("anchor", std::span(state.anchor));
  snapshot.read_unhashed("momentum", std::span(state.momentum));
  state.digest = whole_digest(state);
  if (state.digest != digest) {
    throw std::system_error(
        Errc::bad_checkpoint,
        fmt::format("the snapshot of version {} does not have the digest that was announced",
                    version));
  }
  state.adopt(version);
  state.intact = true;
}

namespace {

constexpr std::size_t kHeaderBytesMax = 16'000'000;  // some 100 bytes for each tensor of a model
constexpr std::size_t kPieceElements = 64 * diloco::kLeafElements;

diloco::Digest root_of(const SafetensorsReader& file, const std::string& tensor) {
  std::size_t left = 1;
  for (const std::int64_t extent : file.shape(tensor)) left *= static_cast<std::size_t>(extent);
  // A layout pads to whole leaves. With fewer zeros at its end a tensor would have the same digest.
  if (file.shape(tensor).size() != 1 || left % diloco::kLeafElements != 0)
    throw std::system_error(Errc::bad_checkpoint, tensor + " is not padded to whole leaves");
  std::vector<diloco::Digest> leaves;
  std::vector<float> piece(kPieceElements);
  for (std::size_t begin = 0; left > 0; begin += kPieceElements) {
    const std::size_t count = std::min(left, kPieceElements);
    file.read_part(tensor, begin, std::span(piece).first(count));
    const auto some = diloco::merkle_leaves(std::span(piece).first(count));
    leaves.insert(leaves.end(), some.begin(), some.end());
    left -= count;
  }
  return diloco::merkle_root(leaves);
}

}  // namespace

std::string wrong_snapshot(const std::filesystem::path& file, const diloco::Digest& state) {
  try {
    const SafetensorsReader reader(file, kHeaderBytesMax);
    const diloco::Digest found =
        diloco::state_digest(root_of(reader, "anchor"), root_of(reader, "momentum"));
    if (found == state) return {};
    return "holds another state than it was said to hold (" + diloco::to_hex(found) +
           " where the run has " + diloco::to_hex(state) + ")";
  } catch (const std::system_error& error) {
    if (error.code() != Errc::bad_checkpoint) throw;
    return std::string("is no snapshot (") + error.what() + ")";
  }
}

}  // namespace causeway::intra
