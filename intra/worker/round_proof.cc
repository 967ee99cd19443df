#include "intra/worker/round_proof.h"

#include <array>
#include <charconv>
#include <oneapi/dnnl/dnnl.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <hwy/targets.h>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"

namespace causeway::intra {
namespace {

namespace proof_fs = std::filesystem;

constexpr const char* kProofFormat = "causeway-proof-1";
constexpr std::size_t kLineMax = 1024;  // bytes, of the head too
constexpr std::size_t kShown = 100;     // of a line that is none

diloco::Digest root_of(std::span<const float> values) {
  return diloco::merkle_root(diloco::merkle_leaves(values));
}

// These are hashed: the head, and each line without its newline.
std::string head_of(const RoundProof& proof) {
  return fmt::format("machine {}\nthreads {}\nmomentum {}\n", proof.machine, proof.threads,
                     diloco::to_hex(proof.momentum));
}

std::string line_of(const RoundProof& proof, const ProofLeaf& leaf) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", proof.region, proof.round, leaf.steps,
                     leaf.data_cursor, leaf.optimizer_steps, diloco::to_hex(leaf.params),
                     diloco::to_hex(leaf.first_moment), diloco::to_hex(leaf.second_moment),
                     diloco::to_hex(leaf.residual));
}

// What the steps began with, in the order of the file.
std::array<std::span<float>, 4> spans_of(TrainingState& state) {
  return {std::span(state.params), state.optimizer.first_moment(), state.optimizer.second_moment(),
          std::span(state.residual)};
}

[[noreturn]] void refuse_proof(const proof_fs::path& file, const std::string& why) {
  throw std::system_error(Errc::bad_checkpoint, file.string() + " " + why);
}

// Whoever is checked wrote it: nothing of it is read before its kind and size are known.
std::string read_bounded(const proof_fs::path& file, std::uintmax_t bytes_max) {
  if (!proof_fs::exists(file)) refuse_proof(file, "is not there");
  if (!proof_fs::is_regular_file(file)) refuse_proof(file, "is not a file");
  const std::uintmax_t size = proof_fs::file_size(file);
  if (size > bytes_max)
    refuse_proof(file, fmt::format("has {} bytes, and can have {} at most", size, bytes_max));
  auto bytes = diloco::read_file(file);
  if (!bytes) refuse_proof(file, "is not there");
  return std::move(*bytes);
}

bool read_digests(std::istringstream& words, std::initializer_list<diloco::Digest*> digests) {
  for (diloco::Digest* const digest : digests) {
    std::string hex;
    words >> hex;
    const auto read = diloco::from_hex(hex);
    if (!read) return false;
    *digest = *read;
  }
  return true;
}

}  // namespace

// ---- Leaves ----

ProofLeaf leaf_after(const ProofLeaf& before, std::uint32_t steps, std::uint64_t samples_per_step,
                     TrainingState& state) {
  ProofLeaf leaf = before;
  leaf.data_cursor += (steps - before.steps) * samples_per_step;
  leaf.steps = steps;
  leaf.optimizer_steps = state.optimizer_steps;
  leaf.params = root_of(state.params);
  leaf.first_moment = root_of(state.optimizer.first_moment());
  leaf.second_moment = root_of(state.optimizer.second_moment());
  return leaf;
}

std::string difference(const ProofLeaf& one, const ProofLeaf& other) {
  std::string text;
  const auto compare = [&text](const auto& a, const auto& b, const char* name) {
    if (a != b) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  compare(one.steps, other.steps, "the number of steps");
  compare(one.data_cursor, other.data_cursor, "the place in the data");
  compare(one.optimizer_steps, other.optimizer_steps, "the optimizer's number of steps");
  compare(one.params, other.params, "the parameters");
  compare(std::pair(one.first_moment, one.second_moment),
          std::pair(other.first_moment, other.second_moment), "the optimizer's moments");
  compare(one.residual, other.residual, "the residual");
  return text;
}

diloco::Digest RoundProof::root() const {
  std::vector<diloco::Digest> hashes;
  const auto add = [&hashes](const std::string& content) {
    const std::string text = std::string(1, '\0') + content;
    hashes.push_back(diloco::sha256(std::as_bytes(std::span(text))));
  };
  add(head_of(*this));
  for (const ProofLeaf& leaf : leaves) add(line_of(*this, leaf));
  return diloco::merkle_root(hashes);
}

std::string machine_kind() {
  const dnnl::version_t* const version = dnnl::version();
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;  // the lowest bit: the best
  return fmt::format("causeway {}, compiler {}, oneDNN {}.{}.{}, instruction set {:#x}, kernels {}",
                     CAUSEWAY_VERSION, __VERSION__, version->major, version->minor, version->patch,
                     static_cast<unsigned>(dnnl::get_effective_cpu_isa()),
                     hwy::TargetName(targets & -targets));
}

// ---- Files ----

proof_fs::path proof_directory(const proof_fs::path& region_directory) {
  return region_directory / "proofs";
}

proof_fs::path proof_state_file(const proof_fs::path& region_directory, diloco::Round round) {
  return proof_directory(region_directory) / fmt::format("round-{}.state", round);
}

proof_fs::path proof_leaves_file(const proof_fs::path& region_directory, diloco::Round round) {
  return proof_directory(region_directory) / fmt::format("round-{}.leaves", round);
}

// Not forced to the disk: after a crash its first leaf says that it is not whole.
void write_proof_state(const proof_fs::path& file, TrainingState& state) {
  diloco::AtomicFile writer(file);
  for (const std::span<float> span : spans_of(state)) writer.append(std::as_bytes(span));
  writer.commit(diloco::Durability::visible);
}

void write_proof(const proof_fs::path& file, const RoundProof& proof) {
  std::string text = std::string(kProofFormat) + "\n" + head_of(proof);
  for (const ProofLeaf& leaf : proof.leaves) text += line_of(proof, leaf) + "\n";
  diloco::replace_file(file, text, diloco::Durability::visible);
}

void read_proof_state(const proof_fs::path& file, TrainingState& state) {
  std::size_t place = 0, size = 0;
  for (const std::span<float> span : spans_of(state)) size += span.size_bytes();
  const std::string bytes = read_bounded(file, size);
  if (bytes.size() != size)
    refuse_proof(file,
                 fmt::format("has {} bytes; a state of this model has {}", bytes.size(), size));
  for (const std::span<float> span : spans_of(state)) {
    bytes.copy(reinterpret_cast<char*>(span.data()), span.size_bytes(), place);
    place += span.size_bytes();
  }
}

RoundProof read_proof(const proof_fs::path& file, std::size_t leaves_max) {
  std::istringstream lines(read_bounded(file, (leaves_max + 4) * kLineMax));
  RoundProof proof;
  std::string format, word, momentum, line;
  std::getline(lines, format);
  lines >> word;
  std::getline(lines >> std::ws, proof.machine);
  lines >> word >> proof.threads >> word >> momentum >> std::ws;
  const auto root = diloco::from_hex(momentum);
  if (format != kProofFormat || !lines || !root || proof.threads < 1)
    refuse_proof(file, "is not a proof of this version");
  proof.momentum = *root;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    ProofLeaf leaf;
    words >> proof.region >> proof.round >> leaf.steps >> leaf.data_cursor >> leaf.optimizer_steps;
    if (!words ||
        !read_digests(words,
                      {&leaf.params, &leaf.first_moment, &leaf.second_moment, &leaf.residual}) ||
        line_of(proof, leaf) != line)
      refuse_proof(file, "has a line that is no leaf: " + line.substr(0, kShown));
    proof.leaves.push_back(leaf);
  }
  if (proof.leaves.size() < 2) refuse_proof(file, "has fewer than two leaves");
  return proof;
}

void remove_old_proofs(const proof_fs::path& region_directory, diloco::Round first) {
  constexpr std::string_view kPrefix = "round-";
  for (const auto& entry : proof_fs::directory_iterator(proof_directory(region_directory))) {
    const std::string name = entry.path().stem().string();
    diloco::Round round = 0;
    if (!name.starts_with(kPrefix)) continue;
    const auto read =
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), round);
    if (read.ec == std::errc() && round < first) proof_fs::remove(entry.path());
  }
}

}  // namespace causeway::intra
