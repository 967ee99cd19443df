// A region's state on disk: one, whatever the number of its ranks.
//   checkpoints/state.safetensors      params if they are not the anchor, residual, mark, and what
//                                      a trainer adds, as far as the run keeps them; counters as
//                                      metadata
//   checkpoints/state.1.safetensors    of the version saved before; and so on, as many as are kept
//   checkpoints/contribution-HASH.bin  own payloads whose outcome is open (in_flight_files.h)
// A state's anchor and outer momentum are in a file that it names (snapshot_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"
#include "intra/outer/outer_state.h"
#include "intra/outer/snapshot_file.h"
#include "intra/outer/state_reader.h"

namespace causeway::intra {

std::filesystem::path newest_state_file(const std::filesystem::path& region_directory);

// Those of a region's training states, newest first.
std::vector<std::filesystem::path> state_files(const std::filesystem::path& region_directory);

// Versions at which a region saves its state: as soon as the record is applied; and, if it saves
// each version, again when the next contribution is made, before anybody has that, so that no other
// is made instead. Otherwise a kill loses the residual of most rounds anyway.
struct SavePlan {
  diloco::Round every = 1;
  bool when_applied(diloco::Round version) const { return version % every == 0; }
  bool when_contributed() const { return every == 1; }
};

// How many states are kept, the newest included, unless somebody says otherwise.
inline constexpr std::uint32_t kStatesKept = 2;

// A state from this size on is saved beside steps: a smaller one is written sooner than a thread is
// worth its start.
inline constexpr std::uint64_t kSavedBesideStepsBytes = 64U << 20;

// A state on disk: what is its own, and the file with its anchor and momentum. A state that an
// earlier version wrote has them in itself.
struct WholeState {
  StateReader own, outer;
};
// Throws Errc::bad_checkpoint if one of the two is missing or damaged.
WholeState open_state(const std::filesystem::path& file);

// A state as its file will have it, without what its outer file has: the spans where they lie, all
// else copied, so that only whoever changes a span waits until it is read.
struct StateImage {
  std::vector<TensorView> tensors;  // the first `stepped` are those that inner steps change
  std::size_t stepped = 0;
  std::map<std::string, std::string> metadata;  // without what is in flight
  std::vector<InFlight> in_flight;
  diloco::Round version = 0;
  std::optional<diloco::Round> on_disk;  // as OuterState's
};
// `more_tensors`: what else inner steps change.
StateImage image_of(const OuterState& state, const diloco::Layout& layout,
                    std::vector<TensorView> more_tensors,
                    std::map<std::string, std::string> more_metadata);
// Atomic; takes the place of an earlier state of the same version, or of one that nobody has read.
// The outer file, which it names, must be there when the hook before_it_is_named returns. What was
// in flight has left the image then. Throws std::system_error naming the file. On any thread, one
// at a time.
void write_state(const std::filesystem::path& region_directory, StateImage& image,
                 const std::string& outer, std::uint32_t kept, const WriteHooks& hooks);
// All of it at once; the state is on disk then.
void save_image(const std::filesystem::path& region_directory, StateImage image,
                const SnapshotImage& outer, std::uint32_t kept = kStatesKept);
// The newest state that is whole; `read_more` reads what the trainer added. Of a state that another
// region wrote than state.region, if that is said, only what all regions share is read, with a
// warning, and `read_more` is not called. False if there is none.
// Throws Errc::bad_checkpoint if all are damaged or of another model.
bool load_outer_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                      OuterState& state,
                      const std::function<void(const StateReader&)>& read_more = {});

}  // namespace causeway::intra
