#include "intra/outer/state_file.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/base/safetensors.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, std::string>;

constexpr const char* kFormat = "causeway-state-3";

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

// Named by content, so that a state never finds another contribution than its own.
fs::path contribution_file(const fs::path& region_directory, const diloco::Digest& hash) {
  return checkpoint_directory(region_directory) /
         ("contribution-" + diloco::to_hex(hash).substr(0, 16) + ".bin");
}

constexpr std::string_view kOuter = "outer-", kOuterEnd = ".safetensors";
constexpr std::size_t kDrawnDigits = 16;

bool is_outer_name(std::string_view name) {
  if (!name.starts_with(kOuter) || !name.ends_with(kOuterEnd)) return false;
  name = name.substr(kOuter.size(), name.size() - kOuter.size() - kOuterEnd.size());
  const std::size_t version = name.find_first_not_of("0123456789");
  return version != name.npos && version > 0 && name[version] == '-' &&
         name.size() == version + 1 + kDrawnDigits &&
         name.find_first_not_of("0123456789abcdef", version + 1) == name.npos;
}

// That of a state which an earlier version wrote is the state itself.
fs::path outer_file_of(const StateReader& state) {
  if (!state.has("outer")) return state.file();
  const std::string& name = state.get("outer");
  if (!is_outer_name(name)) state.refuse("names no file that may hold its anchor: " + name);
  return state.file().parent_path() / name;
}

// ---- Contributions, as metadata: one line each ----

std::string hex(const std::string& bytes) {
  return diloco::to_hex({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::optional<std::string> unhex(const std::string& text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned value = 0;
    const char* const end = text.data() + i + 2;
    const auto result = std::from_chars(text.data() + i, end, value, 16);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string describe(const std::vector<InFlight>& in_flight) {
  std::string text;
  for (const InFlight& own : in_flight) {
    text += std::string(own.stored ? "stored" : "kept") + (own.payload.empty() ? " 0 " : " 1 ") +
            hex(serialize(own.identified())) + "\n";
  }
  return text;
}

// `state` names it.
OwnPayload read_payload_of(const fs::path& region_directory, const fs::path& state,
                           const diloco::Digest& hash) {
  const fs::path file = contribution_file(region_directory, hash);
  const std::optional<std::string> bytes = diloco::read_file(file);
  const auto refuse = [&](const std::string& why) {
    throw std::system_error(Errc::bad_checkpoint, file.string() + " " + why + "; remove " +
                                                      state.string() +
                                                      " to start from the run's own state");
  };
  if (!bytes) refuse("is missing");
  OwnPayload payload{diloco::SealedBytes(std::as_bytes(std::span(*bytes)))};
  if (payload.hash() != hash) refuse("is not the contribution that the state names");
  return payload;
}

// Without their payloads, and whether they have one.
std::vector<std::pair<InFlight, bool>> parse_in_flight(const StateReader& reader) {
  std::vector<std::pair<InFlight, bool>> in_flight;
  std::istringstream lines(reader.get("in_flight"));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string stored, has_payload, description, more;
    words >> stored >> has_payload >> description;
    const std::optional<std::string> bytes = unhex(description);
    const bool known = (stored == "stored" || stored == "kept") &&
                       (has_payload == "0" || has_payload == "1") && bytes && !(words >> more);
    if (!known) reader.refuse("describes a contribution that cannot be read");
    try {
      InFlight own{.contribution = diloco::parse_contribution(*bytes), .payload = {}};
      own.stored = stored == "stored";
      in_flight.emplace_back(std::move(own), has_payload == "1");
    } catch (const std::system_error& error) {
      if (error.code() != diloco::Errc::malformed) throw;
      reader.refuse(std::string("describes a contribution that cannot be read: ") + error.what());
    }
  }
  return in_flight;
}

std::vector<InFlight> read_in_flight(const fs::path& region_directory, const StateReader& reader) {
  std::vector<InFlight> in_flight;
  for (auto& [own, has_payload] : parse_in_flight(reader)) {
    if (has_payload) {
      own.payload = read_payload_of(region_directory, reader.file(), own.contribution.payload.hash);
    }
    in_flight.push_back(std::move(own));
  }
  return in_flight;
}

// Before the state: it must never be without what it names.
void write_contributions(const fs::path& region_directory, const std::vector<InFlight>& in_flight) {
  for (const InFlight& own : in_flight) {
    if (own.payload.empty()) continue;
    const fs::path file = contribution_file(region_directory, own.payload.hash());
    if (!fs::exists(file))
      diloco::replace_file(file, own.payload.bytes(), diloco::Durability::on_disk);
  }
}

// Outer files and contributions that no state names, nor the next one, as `keep` has them. None
// goes while a state cannot be read: it may be the disk that fails, and the next state takes the
// place of one that is damaged.
void remove_unnamed(const fs::path& region_directory, std::set<fs::path> keep) {
  for (const fs::path& file : state_files(region_directory)) {
    try {
      const StateReader state(file);
      keep.insert(outer_file_of(state));
      for (const auto& [own, has_payload] : parse_in_flight(state))
        if (has_payload)
          keep.insert(contribution_file(region_directory, own.contribution.payload.hash));
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

// ---- Everything else ----

Metadata describe(const OuterState& state, const diloco::Layout& layout) {
  return {{"format", kFormat},
          {"layout", fingerprint(layout)},
          {"run_id", state.run_id},
          {"version", to_metadata(state.version)},
          {"digest", diloco::to_hex(state.digest)},
          {"confirmed_share", to_metadata(state.confirmed_share)},
          {"data_cursor", to_metadata(state.work.data_cursor)},
          {"work_steps", to_metadata(state.work.steps)},
          {"work_compute_s", to_metadata(state.work.compute_s)},
          {"marked", to_metadata(int{!state.mark.empty()})}};
}

void check_origin(const StateReader& reader, const diloco::Layout& layout) {
  if (reader.get("format") != kFormat) reader.refuse("is not a training state of this version");
  if (reader.get("layout") != fingerprint(layout))
    reader.refuse("holds another model than the configuration describes");
}

void read_spans(const WholeState& whole, const diloco::Layout& layout, OuterState& state) {
  const auto& [reader, outer] = whole;
  outer.read("anchor", std::span(state.anchor));
  outer.read("momentum", std::span(state.momentum));
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

void load(const WholeState& whole, const fs::path& region_directory, const diloco::Layout& layout,
          OuterState& state) {
  const StateReader& reader = whole.own;
  check_origin(reader, layout);
  if (!reader.has_header_hash()) {
    spdlog::warn("{} was written by an earlier version: its counters have no checksum",
                 reader.file().string());
  }
  read_spans(whole, layout, state);
  state.run_id = reader.get("run_id");
  reader.read("version", state.version);
  if (reader.has("confirmed_share")) reader.read("confirmed_share", state.confirmed_share);
  if (!(state.confirmed_share >= 0 && state.confirmed_share <= 1))
    reader.refuse("holds a confirmed_share that is not a number from 0 to 1");
  reader.read("data_cursor", state.work.data_cursor);
  reader.read("work_steps", state.work.steps);
  reader.read("work_compute_s", state.work.compute_s);
  state.digest = whole_digest(state);
  if (diloco::to_hex(state.digest) != reader.get("digest")) {
    reader.refuse("is damaged: the anchor and the momentum in " +
                  whole.outer.file().filename().string() + " do not have its digest");
  }
  state.in_flight = read_in_flight(region_directory, reader);
  state.intact = true;
}

}  // namespace

fs::path checkpoint_directory(const fs::path& region_directory) {
  return region_directory / "checkpoints";
}

fs::path snapshot_file(const fs::path& region_directory) {
  return checkpoint_directory(region_directory) / "snapshot.safetensors";
}

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

TensorView flat_tensor(const std::string& name, std::span<const float> values) {
  return {name, {static_cast<std::int64_t>(values.size())}, values};
}

const std::string& StateReader::get(const std::string& key) const {
  const auto found = reader_.metadata().find(key);
  if (found == reader_.metadata().end()) refuse("has no entry " + key);
  return found->second;
}

void StateReader::read_kept(const std::string& name, std::span<float> out) const {
  if (out.empty()) return;
  if (reader_.has(name)) return read(name, out);
  std::ranges::fill(out, 0.0F);
}

void StateReader::read_unhashed(const std::string& name, std::span<float> out) const {
  const auto shape = reader_.shape(name);
  if (shape != std::vector{static_cast<std::int64_t>(out.size())})
    refuse("tensor '" + name + "' has another size than here");
  reader_.read_part(name, 0, out);
}

void StateReader::refuse(const std::string& why) const {
  throw std::system_error(
      Errc::bad_checkpoint,
      file_.string() + ": " + why + "; remove it to start from the run's own state");
}

std::string draw_outer_name(diloco::Round version) {
  return fmt::format("{}{}-{}{}", kOuter, version, diloco::random_name().substr(0, kDrawnDigits),
                     kOuterEnd);
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
  // After an outer step without steps ahead they are the anchor.
  const bool moved = state.params.size() != state.anchor.size() ||
                     std::memcmp(state.params.data(), state.anchor.data(),
                                 std::span(state.params).size_bytes()) != 0;
  StateImage image{.tensors = {},
                   .metadata = std::move(more_metadata),
                   .in_flight = state.in_flight,
                   .version = state.version,
                   .on_disk = state.on_disk};
  if (moved) image.tensors.push_back(flat_tensor("params", state.params));
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
  write_contributions(region_directory, image.in_flight);
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

void save_outer_state(const fs::path& region_directory, const diloco::Layout& layout,
                      OuterState& state, std::vector<TensorView> more_tensors,
                      Metadata more_metadata, std::uint32_t kept) {
  save_image(region_directory,
             image_of(state, layout, std::move(more_tensors), std::move(more_metadata)),
             snapshot_of(state, layout), kept);
  state.on_disk = state.version;
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
      load(whole, region_directory, layout, state);
      if (read_more) read_more(whole.own);
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

void save_snapshot(const fs::path& region_directory, const diloco::Layout& layout,
                   const OuterState& state) {
  diloco::create_private_directories(checkpoint_directory(region_directory));
  write_snapshot(snapshot_file(region_directory), layout, state);
}

void write_snapshot(const fs::path& file, const diloco::Layout& layout, const OuterState& state) {
  write_snapshot(file, snapshot_of(state, layout));
}

SnapshotImage snapshot_of(const OuterState& state, const diloco::Layout& layout) {
  return {.tensors = {flat_tensor("anchor", state.anchor), flat_tensor("momentum", state.momentum)},
          .metadata = {{"format", kFormat},
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
