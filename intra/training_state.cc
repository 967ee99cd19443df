#include "intra/training_state.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>

#include "diloco/file_io.h"
#include "intra/checkpoint.h"
#include "intra/error.h"

namespace causeway::intra {
namespace {

using Metadata = std::map<std::string, std::string>;
namespace fs = std::filesystem;

constexpr const char* kFormat = "causeway-state-1";

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
  throw std::system_error(
      Errc::bad_checkpoint,
      file.string() + ": " + why + "; remove it to start from the run's own state");
}

fs::path state_file(const fs::path& region_directory) {
  return checkpoint_directory(region_directory) / "state.safetensors";
}

// Named by content, so that a state never finds another contribution than its own.
fs::path contribution_file(const fs::path& region_directory, const std::string& hash) {
  return checkpoint_directory(region_directory) / ("contribution-" + hash.substr(0, 16) + ".bin");
}

// Doubles go through their shortest exact text.
template <typename Number>
std::string text(Number value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

class MetadataReader {
 public:
  MetadataReader(fs::path file, const Metadata& metadata)
      : file_(std::move(file)), metadata_(metadata) {}

  const std::string& get(const std::string& key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) refuse(file_, "has no entry " + key);
    return found->second;
  }

  template <typename Number>
  void read(const std::string& key, Number& out) const {
    const std::string& value = get(key);
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (error != std::errc() || end != value.data() + value.size()) {
      refuse(file_, "entry " + key + " is not a number: " + value);
    }
  }

 private:
  fs::path file_;
  const Metadata& metadata_;
};

std::vector<TensorView> flat_tensors(
    std::initializer_list<std::pair<const char*, std::span<const float>>> spans) {
  std::vector<TensorView> tensors;
  for (const auto& [name, values] : spans) {
    tensors.push_back({name, {static_cast<std::int64_t>(values.size())}, values});
  }
  return tensors;
}

std::string payload_hash(const TrainingState& state) {
  return state.payload.empty() ? "" : diloco::to_hex(diloco::sha256(state.payload));
}

Metadata describe(const TrainingState& state, const diloco::Layout& layout) {
  return {{"format", kFormat},
          {"layout", fingerprint(layout)},
          {"run_id", state.run_id},
          {"version", text(state.version)},
          {"digest", diloco::to_hex(state.digest)},
          {"step_in_round", text(state.step_in_round)},
          {"data_cursor", text(state.data_cursor)},
          {"optimizer_steps", text(state.optimizer_steps)},
          {"steps", text(state.steps)},
          {"tokens", text(state.tokens)},
          {"compute_s", text(state.compute_s)},
          {"wait_s", text(state.wait_s)},
          {"delta_norm", text(state.delta_norm)},
          {"error_norm", text(state.error_norm)},
          {"payload", payload_hash(state)},
          {"contributed", text(int{state.contributed})}};
}

void check_origin(const MetadataReader& metadata, const fs::path& file,
                  const diloco::Layout& layout) {
  if (metadata.get("format") != kFormat) refuse(file, "is not a training state of this version");
  if (metadata.get("layout") != fingerprint(layout)) {
    refuse(file, "holds another model than the configuration asks for");
  }
}

void read_counters(const MetadataReader& metadata, TrainingState& state) {
  state.run_id = metadata.get("run_id");
  metadata.read("version", state.version);
  metadata.read("step_in_round", state.step_in_round);
  metadata.read("data_cursor", state.data_cursor);
  metadata.read("optimizer_steps", state.optimizer_steps);
  metadata.read("steps", state.steps);
  metadata.read("tokens", state.tokens);
  metadata.read("compute_s", state.compute_s);
  metadata.read("wait_s", state.wait_s);
  metadata.read("delta_norm", state.delta_norm);
  metadata.read("error_norm", state.error_norm);
  int contributed = 0;
  metadata.read("contributed", contributed);
  state.contributed = contributed != 0;
}

std::vector<std::byte> read_whole(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(file, "is missing");
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

void read_contribution(const fs::path& region_directory, const std::string& hash,
                       TrainingState& state) {
  state.payload.clear();
  if (hash.empty()) return;
  const fs::path file = contribution_file(region_directory, hash);
  state.payload = read_whole(file);
  if (diloco::to_hex(diloco::sha256(state.payload)) != hash) {
    refuse(file,
           "is not the contribution that " + state_file(region_directory).string() + " names");
  }
}

// The outcome of every other contribution is known.
void remove_old_contributions(const fs::path& region_directory, const std::string& hash) {
  const fs::path keep = contribution_file(region_directory, hash);
  for (const auto& entry : fs::directory_iterator(checkpoint_directory(region_directory))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("contribution-") && entry.path() != keep) fs::remove(entry.path());
  }
}

}  // namespace

TrainingState::TrainingState(const InnerOptions& inner, const diloco::Layout& layout)
    : params(layout.size()),
      anchor(layout.size()),
      momentum(layout.size()),
      residual(layout.size()),
      scratch(layout.size()),
      optimizer(inner, layout) {}

diloco::Digest whole_digest(const TrainingState& state) {
  return diloco::state_digest(diloco::merkle_root(diloco::merkle_leaves(state.anchor)),
                              diloco::merkle_root(diloco::merkle_leaves(state.momentum)));
}

std::string fingerprint(const diloco::Layout& layout) {
  std::string description;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    description += tensor.spec.name;
    for (const std::int64_t size : tensor.spec.shape) description += ' ' + std::to_string(size);
    description += '\n';
  }
  return diloco::to_hex(diloco::sha256(std::as_bytes(std::span(description))));
}

fs::path checkpoint_directory(const fs::path& region_directory) {
  return region_directory / "checkpoints";
}

fs::path snapshot_file(const fs::path& region_directory) {
  return checkpoint_directory(region_directory) / "snapshot.safetensors";
}

void save_state(const fs::path& region_directory, const diloco::Layout& layout,
                TrainingState& state) {
  fs::create_directories(checkpoint_directory(region_directory));
  // The contribution first: the state that names it must never be without it.
  const std::string hash = payload_hash(state);
  if (!hash.empty()) {
    diloco::replace_file(contribution_file(region_directory, hash), std::span(state.payload),
                         diloco::Durability::on_disk);
  }
  write_safetensors(state_file(region_directory),
                    flat_tensors({{"params", state.params},
                                  {"first_moment", state.optimizer.first_moment()},
                                  {"second_moment", state.optimizer.second_moment()},
                                  {"anchor", state.anchor},
                                  {"momentum", state.momentum},
                                  {"residual", state.residual}}),
                    describe(state, layout));
  remove_old_contributions(region_directory, hash);
}

bool load_state(const fs::path& region_directory, const diloco::Layout& layout,
                TrainingState& state) {
  const fs::path file = state_file(region_directory);
  if (!fs::exists(file)) return false;
  const SafetensorsReader reader(file);
  const MetadataReader metadata(file, reader.metadata());
  check_origin(metadata, file, layout);
  reader.read("params", state.params);
  reader.read("first_moment", state.optimizer.first_moment());
  reader.read("second_moment", state.optimizer.second_moment());
  reader.read("anchor", state.anchor);
  reader.read("momentum", state.momentum);
  reader.read("residual", state.residual);
  read_counters(metadata, state);
  state.digest = whole_digest(state);
  if (diloco::to_hex(state.digest) != metadata.get("digest"))
    refuse(file, "is damaged: its digest is wrong");
  read_contribution(region_directory, metadata.get("payload"), state);
  state.intact = true;
  return true;
}

void save_snapshot(const fs::path& region_directory, const diloco::Layout& layout,
                   const TrainingState& state) {
  fs::create_directories(checkpoint_directory(region_directory));
  write_safetensors(snapshot_file(region_directory),
                    flat_tensors({{"anchor", state.anchor}, {"momentum", state.momentum}}),
                    {{"format", kFormat},
                     {"layout", fingerprint(layout)},
                     {"version", text(state.version)},
                     {"digest", diloco::to_hex(state.digest)}});
}

void adopt_snapshot(const fs::path& file, const diloco::Layout& layout, diloco::Round version,
                    const diloco::Digest& digest, TrainingState& state) {
  state.intact = false;
  const SafetensorsReader reader(file);
  check_origin(MetadataReader(file, reader.metadata()), file, layout);
  reader.read("anchor", state.anchor);
  reader.read("momentum", state.momentum);
  state.digest = whole_digest(state);
  if (state.digest != digest) {
    throw std::system_error(Errc::bad_checkpoint,
                            "the snapshot of version " + std::to_string(version) +
                                " does not have the digest that was announced");
  }
  state.params = state.anchor;
  std::fill(state.residual.begin(), state.residual.end(), 0.0F);
  state.payload.clear();
  state.contributed = false;
  state.step_in_round = 0;
  state.version = version;
  state.intact = true;
}

}  // namespace causeway::intra
