// What `causeway verify` finds in regions' newest snapshots: whether one is the state that the
// record of its version says, and where two of one version differ.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/log/record.h"
#include "diloco/maths/digest.h"
#include "diloco/maths/layout.h"

namespace causeway::run {

struct SnapshotLeaves {
  diloco::Round version = 0;
  std::map<std::string, std::vector<diloco::Digest>> spans;  // leaves of anchor and momentum
  diloco::Digest state{};
  std::optional<diloco::Layout> layout;  // none: the file does not name the model's tensors
};

// Of a file with a state. Throws Errc::bad_checkpoint naming it if it is damaged.
enum class Tensors { shared, all };  // anchor and momentum; what else is there is read and checked
SnapshotLeaves read_leaves(const std::filesystem::path& file, Tensors which = Tensors::shared);
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
