#include "intra/outer/state_file.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "compression/base/parallel.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/outer/in_flight_files.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, std::string>;

fs::path state_file(const fs::path& region_directory, std::uint32_t age = 0) {
  const std::string name = age == 0 ? "state" : fmt::format("state.{}", age);
  return checkpoint_directory(region_directory) / (name + ".safetensors");
}

// Whether the newest state is one of this version, perhaps damaged, or gone: the next one takes its
// place, and the one before it stays.
bool gives_way(const fs::path& newest, const StateImage& state) {
  if (!fs::exists(newest) || !state.on_disk) return true;
  try {
    const std::string version = StateReader(newest).get("version");
    return version == to_metadata(state.version) || version != to_metadata(*state.on_disk);
  } catch (const std::system_error& error) {
    if (error.code() != Errc::bad_checkpoint) throw;
    return true;
  }
}

// Of `age` and older.
void remove_states(const fs::path& region_directory, std::uint32_t age) {
  for (; fs::exists(state_file(region_directory, age)); ++age)
    fs::remove(state_file(region_directory, age));
}

// Each state becomes one older, and the newest name is free. No two share their blocks: what
// damages one must leave the other.
void age_states(const fs::path& region_directory, std::uint32_t kept) {
  for (std::uint32_t age = kept; age-- > 1;) {
    const fs::path younger = state_file(region_directory, age - 1);
    if (fs::exists(younger)) fs::rename(younger, state_file(region_directory, age));
  }
}

// That of a state which an earlier version wrote is the state itself.
fs::path outer_file_of(const StateReader& state) {
  if (!state.has("outer")) return state.file();
  const std::string& name = state.get("outer");
  if (!is_outer_name(name)) state.refuse("names no file that may hold its anchor: " + name);
  return state.file().parent_path() / name;
}

// Outer files and contributions that no state names, nor the next one, as `keep` has them. None
// goes while a state cannot be read: it may be the disk that fails, and the next state takes the
// place of one that is damaged.
void remove_unnamed(const fs::path& region_directory, std::set<fs::path> keep) {
  for (const fs::path& file : state_files(region_directory)) {
    try {
      const StateReader state(file);
      keep.insert(outer_file_of(state));
      for (const fs::path& payload : in_flight_files_of(region_directory, state))
        keep.insert(payload);
    } catch (const std::system_error& error) {
      if (error.code() != Errc::bad_checkpoint) throw;
      return;
    }
  }
  for (const auto& entry : fs::directory_iterator(checkpoint_directory(region_directory))) {
    const std::string name = entry.path().filename().string();
    const bool is_ours = name.starts_with("contribution-") || is_outer_name(name);
    if (is_ours && !keep.contains(entry.path())) fs::remove(entry.path());
  }
}

// After an outer step without steps ahead they are the anchor.
bool are_the_anchor(std::span<const float> params, std::span<const float> anchor) {
  constexpr std::size_t kComparedElements = std::size_t{1} << 18;
  if (params.size() != anchor.size()) return false;
  const auto is_equal = [&](std::size_t piece) {
    const std::size_t begin = piece * kComparedElements;
    const std::size_t count = std::min(kComparedElements, params.size() - begin);
    return std::memcmp(&params[begin], &anchor[begin], count * sizeof(float)) == 0;
  };
  const std::size_t pieces = (params.size() + kComparedElements - 1) / kComparedElements;
  return compression::first_failure(pieces, is_equal) == compression::kNone;
}

Metadata describe(const OuterState& state, const diloco::Layout& layout) {
  return {{"format", kStateFormat},
          {"layout", fingerprint(layout)},
          {"run_id", state.run_id},
          {"region", state.region},
          {"version", to_metadata(state.version)},
          {"digest", diloco::to_hex(state.digest)},
          {"confirmed_share", to_metadata(state.confirmed_share)},
          {"data_cursor", to_metadata(state.work.data_cursor)},
          {"work_steps", to_metadata(state.work.steps)},
          {"work_compute_s", to_metadata(state.work.compute_s)},
          {"marked", to_metadata(int{!state.mark.empty()})}};
}

// Returns the digest of the two.
diloco::Digest read_anchor_and_momentum(const StateReader& outer, OuterState& state) {
  const auto read = [&outer](const char* name, std::span<float> span) {
    outer.read_unhashed(name, span);
    const diloco::Digest root = diloco::merkle_root(diloco::merkle_leaves(span));
    outer.tensors().check_hash(name, root);
    return root;
  };
  state.trees = {};
  const diloco::Digest anchor = read("anchor", state.anchor);
  return diloco::state_digest(anchor, read("momentum", state.momentum));
}

void read_own_spans(const StateReader& reader, const diloco::Layout& layout, OuterState& state) {
  if (reader.tensors().has("params")) {
    reader.read("params", std::span(state.params));
  } else {
    state.params = state.anchor;
  }
  reader.read_kept("residual", std::span(state.residual));
  int marked = 0;
  reader.read("marked", marked);
  state.mark.resize(marked != 0 ? layout.size() : 0);
  if (marked != 0) reader.read("mark", std::span(state.mark));
}

// What one region alone has.
void read_own(const StateReader& reader, const fs::path& region_directory,
              const diloco::Layout& layout, OuterState& state) {
  read_own_spans(reader, layout, state);
  if (reader.has("confirmed_share")) reader.read("confirmed_share", state.confirmed_share);
  if (!(state.confirmed_share >= 0 && state.confirmed_share <= 1))
    reader.refuse("holds a confirmed_share that is not a number from 0 to 1");
  reader.read("data_cursor", state.work.data_cursor);
  reader.read("work_steps", state.work.steps);
  reader.read("work_compute_s", state.work.compute_s);
  state.in_flight = read_in_flight(region_directory, reader);
}

// Empty: an earlier version wrote it, which named the region only in what is in flight.
std::string owner_of(const StateReader& reader) {
  return reader.has("region") ? reader.get("region") : region_in_flight(reader);
}

// Of another region's state: anchor and momentum are everybody's. The samples that the rest is of
// are the other region's, and so is what it has under way.
void leave_out_own(const StateReader& reader, const std::string& owner, OuterState& state) {
  spdlog::warn(
      "{} is the state of region {}, not of {}: only what all regions share is used, the average "
      "and the outer momentum of version {}. The residual, the optimizer's moments and the work "
      "under way are left out. If two disks are mounted the wrong way round, stop both regions and "
      "put that right",
      reader.file().string(), owner, state.region, state.version);
  state.in_flight.clear();
  state.confirmed_share = 1;
  state.adopt(state.version);
}

// False: it is another region's.
bool load(const WholeState& whole, const fs::path& region_directory, const diloco::Layout& layout,
          OuterState& state) {
  const StateReader& reader = whole.own;
  check_origin(reader, layout);
  if (!reader.has_header_hash()) {
    spdlog::warn("{} was written by an earlier version: its counters have no checksum",
                 reader.file().string());
  }
  state.digest = read_anchor_and_momentum(whole.outer, state);
  state.run_id = reader.get("run_id");
  reader.read("version", state.version);
  if (diloco::to_hex(state.digest) != reader.get("digest")) {
    reader.refuse("is damaged: the anchor and the momentum in " +
                  whole.outer.file().filename().string() + " do not have its digest");
  }
  const std::string owner = owner_of(reader);
  const bool is_own = owner.empty() || state.region.empty() || owner == state.region;
  if (is_own) {
    read_own(reader, region_directory, layout, state);
  } else {
    leave_out_own(reader, owner, state);
  }
  state.intact = true;
  return is_own;
}

}  // namespace

fs::path newest_state_file(const fs::path& region_directory) {
  return state_file(region_directory);
}

std::vector<fs::path> state_files(const fs::path& region_directory) {
  std::vector<fs::path> files;
  for (std::uint32_t age = 0;; ++age) {
    const fs::path file = state_file(region_directory, age);
    if (fs::exists(file)) {
      files.push_back(file);
    } else if (age > 0) {
      return files;
    }
  }
}

WholeState open_state(const fs::path& file) {
  constexpr int kLooks = 3;  // whoever writes the next state may remove the two one by one
  for (int look = 1;; ++look) {
    StateReader own(file);
    const fs::path outer = outer_file_of(own);
    if (outer == own.file()) return {own, own};
    std::error_code unreadable;
    if (fs::exists(outer, unreadable)) return {std::move(own), StateReader(outer)};
    if (look == kLooks) {
      own.refuse("its anchor and its momentum are missing, which " + outer.filename().string() +
                 " held");
    }
  }
}

StateImage image_of(const OuterState& state, const diloco::Layout& layout,
                    std::vector<TensorView> more_tensors, Metadata more_metadata) {
  more_metadata.merge(describe(state, layout));
  StateImage image{.tensors = {},
                   .metadata = std::move(more_metadata),
                   .in_flight = state.in_flight,
                   .version = state.version,
                   .on_disk = state.on_disk};
  if (!are_the_anchor(state.params, state.anchor))
    image.tensors.push_back(flat_tensor("params", state.params));
  std::ranges::move(more_tensors, std::back_inserter(image.tensors));
  image.stepped = image.tensors.size();
  for (const auto& [name, span] :
       {std::pair("residual", &state.residual), std::pair("mark", &state.mark)}) {
    if (!span->empty()) image.tensors.push_back(flat_tensor(name, *span));
  }
  return image;
}

void write_state(const fs::path& region_directory, StateImage& image, const std::string& outer,
                 std::uint32_t kept, const WriteHooks& hooks) {
  diloco::create_private_directories(checkpoint_directory(region_directory));
  const fs::path outer_file = checkpoint_directory(region_directory) / outer;
  const fs::path newest = state_file(region_directory);
  const bool ages = !gives_way(newest, image);
  // While the next one is written, there are no more than are kept, it among them.
  remove_states(region_directory, ages ? std::max(kept, 2U) - 1 : std::max(kept, 1U));
  remove_unnamed(region_directory, {outer_file});  // makes room
  write_payloads(region_directory, image.in_flight);
  image.metadata.emplace("outer", outer);
  image.metadata.emplace("in_flight", describe(image.in_flight));
  image.in_flight.clear();  // nobody else may need their memory any more
  const auto prepare = [&] {
    if (hooks.before_it_is_named) hooks.before_it_is_named();
    if (!fs::exists(outer_file)) {
      throw std::system_error(std::make_error_code(std::errc::io_error),
                              "somebody removed " + outer_file.string());
    }
    if (ages) age_states(region_directory, kept);
  };
  write_safetensors(newest, image.tensors, image.metadata,
                    {.tensor_read = hooks.tensor_read, .before_it_is_named = prepare});
  remove_unnamed(region_directory, {});
}

void save_image(const fs::path& region_directory, StateImage image, const SnapshotImage& outer,
                std::uint32_t kept) {
  const std::string name = draw_outer_name(outer.version);
  const auto write_outer = [&] {
    write_snapshot(checkpoint_directory(region_directory) / name, outer);
  };
  write_state(region_directory, image, name, kept, {.before_it_is_named = write_outer});
}

bool load_outer_state(const fs::path& region_directory, const diloco::Layout& layout,
                      OuterState& state, const std::function<void(const StateReader&)>& read_more) {
  if (fs::exists(checkpoint_directory(region_directory)))
    diloco::remove_leftovers(checkpoint_directory(region_directory));
  std::optional<std::system_error> failure;
  for (const fs::path& file : state_files(region_directory)) {
    try {
      const WholeState whole = open_state(file);
      state.on_disk.reset();
      const bool is_own = load(whole, region_directory, layout, state);
      if (is_own && read_more) read_more(whole.own);
      if (file == state_file(region_directory)) state.on_disk = state.version;
      return true;
    } catch (const std::system_error& error) {
      if (error.code() != Errc::bad_checkpoint) throw;
      spdlog::error("{}; trying the state before it", error.what());
      if (!failure) failure = error;
    }
  }
  if (failure) {
    throw std::system_error(make_error_code(Errc::bad_checkpoint),
                            std::string(failure->what()) + "; no state in " +
                                checkpoint_directory(region_directory).string() +
                                " can be used; move them away to start from the run's own state");
  }
  return false;
}

}  // namespace causeway::intra
