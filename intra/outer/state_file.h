// A region's state on disk: one, whatever the number of its ranks.
//   checkpoints/state.safetensors      params if they are not the anchor, residual, mark, and what
//                                      a trainer adds, as far as the run keeps them; counters as
//                                      metadata
//   checkpoints/state.1.safetensors    of the version saved before; and so on, as many as are kept
//   checkpoints/outer-VERSION-X.safetensors  anchor and outer momentum of the state that names it;
//                                      X is drawn
//   checkpoints/contribution-HASH.bin  own payloads whose outcome is open
//   checkpoints/snapshot.safetensors   an outer file, for other regions
#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/maths/digest.h"
#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"
#include "intra/outer/outer_state.h"

namespace causeway::intra {

std::filesystem::path checkpoint_directory(const std::filesystem::path& region_directory);
std::filesystem::path snapshot_file(const std::filesystem::path& region_directory);

std::filesystem::path newest_state_file(const std::filesystem::path& region_directory);

// Those of a region's training states, newest first.
std::vector<std::filesystem::path> state_files(const std::filesystem::path& region_directory);

TensorView flat_tensor(const std::string& name, std::span<const float> values);

// Doubles go through their shortest exact text.
template <typename Number>
std::string to_metadata(Number value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

// Entries of an untrusted file. Throws Errc::bad_checkpoint naming it.
class StateReader {
 public:
  explicit StateReader(const std::filesystem::path& file) : file_(file), reader_(file) {}
  StateReader(const std::string& name, std::span<const std::byte> content)
      : file_(name), reader_(name, content) {}
  const std::filesystem::path& file() const { return file_; }
  // False: an earlier version wrote it, and damage to its metadata passes unseen.
  bool has_header_hash() const { return reader_.has_header_hash(); }
  bool has(const std::string& key) const { return reader_.metadata().contains(key); }
  const SafetensorsReader& tensors() const { return reader_; }
  const std::string& get(const std::string& key) const;
  template <typename Number>
  void read(const std::string& key, Number& out) const {
    const std::string& value = get(key);
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (error != std::errc() || end != value.data() + value.size())
      refuse("entry " + key + " is not a number: " + value);
  }
  void read(const std::string& name, std::span<float> out) const { reader_.read(name, out); }
  // Of a span that this run may not keep, or that the run which wrote the file did not: zeros then.
  void read_kept(const std::string& name, std::span<float> out) const;
  // All of a tensor whose content something else vouches for: the file's own hash of it is not.
  void read_unhashed(const std::string& name, std::span<float> out) const;
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::filesystem::path file_;
  SafetensorsReader reader_;
};

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

// An outer file as it will be. It has the format of a snapshot, and is one if others may have it.
struct SnapshotImage {
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;
  diloco::Round version = 0;
  diloco::Digest digest{};
};
SnapshotImage snapshot_of(const OuterState& state, const diloco::Layout& layout);

// For an outer file that is to be written: two states that are kept never have the same.
std::string draw_outer_name(diloco::Round version);

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
void save_outer_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                      OuterState& state, std::vector<TensorView> more_tensors,
                      std::map<std::string, std::string> more_metadata,
                      std::uint32_t kept = kStatesKept);
// The newest state that is whole; `read_more` reads what the trainer added. False if there is none.
// Throws Errc::bad_checkpoint if all are damaged or of another model.
bool load_outer_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                      OuterState& state,
                      const std::function<void(const StateReader&)>& read_more = {});

// Atomic. Throws as write_state().
void write_snapshot(const std::filesystem::path& file, const SnapshotImage& image,
                    const std::function<void(std::size_t tensor)>& tensor_read = {});
// An outer file, which is there, becomes the snapshot as well.
void offer_outer_file(const std::filesystem::path& region_directory, const std::string& outer);

void save_snapshot(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                   const OuterState& state);
// The same under another name.
void write_snapshot(const std::filesystem::path& file, const diloco::Layout& layout,
                    const OuterState& state);
// Adopts a snapshot, as OuterState::adopt. Throws Errc::bad_checkpoint, and leaves `state` not
// intact, if it is not the state with this digest.
void adopt_snapshot(const StateReader& snapshot, const diloco::Layout& layout,
                    diloco::Round version, const diloco::Digest& digest, OuterState& state);

// Whether a file is the snapshot that somebody says it is.

// Empty, or what the file is instead of a snapshot of the state with this digest, as a clause that
// follows its name. The file is untrusted. Holds a small part of it in memory at a time.
std::string wrong_snapshot(const std::filesystem::path& file, const diloco::Digest& state);

}  // namespace causeway::intra
