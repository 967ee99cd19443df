// Anchor and outer momentum on disk: of a saved state, which names the file, and for other regions.
//   checkpoints/outer-VERSION-X.safetensors  those of the state that names it; X is random
//   checkpoints/snapshot.safetensors         an outer file, for other regions
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "diloco/maths/digest.h"
#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"
#include "intra/outer/outer_state.h"
#include "intra/outer/state_reader.h"

namespace causeway::intra {

std::filesystem::path checkpoint_directory(const std::filesystem::path& region_directory);
std::filesystem::path snapshot_file(const std::filesystem::path& region_directory);

// An outer file as it will be. It has the format of a snapshot, and is one if others may have it.
struct SnapshotImage {
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;
  diloco::Round version = 0;
  diloco::Digest digest{};
};
SnapshotImage snapshot_of(const OuterState& state, const diloco::Layout& layout);

// A name for a new outer file. It is random, so that two kept states never share one.
std::string draw_outer_name(diloco::Round version);
bool is_outer_name(std::string_view name);

// Atomic. Throws std::system_error naming the file. On any thread, one at a time.
void write_snapshot(const std::filesystem::path& file, const SnapshotImage& image,
                    const std::function<void(std::size_t tensor)>& tensor_read = {});
void write_snapshot(const std::filesystem::path& file, const diloco::Layout& layout,
                    const OuterState& state);
// An outer file, which is there, becomes the snapshot as well.
void offer_outer_file(const std::filesystem::path& region_directory, const std::string& outer);

// Adopts a snapshot, as OuterState::adopt. Throws Errc::bad_checkpoint, and leaves `state` not
// intact, if it is not the state with this digest.
void adopt_snapshot(const StateReader& snapshot, const diloco::Layout& layout,
                    diloco::Round version, const diloco::Digest& digest, OuterState& state);

// Whether a file is the snapshot that somebody says it is.

// Empty, or what the file is instead of a snapshot of the state with this digest, as a clause that
// follows its name. The file is untrusted. Holds a small part of it in memory at a time.
std::string wrong_snapshot(const std::filesystem::path& file, const diloco::Digest& state);

}  // namespace causeway::intra
