#include "diloco/follow/weights_shelf.h"

#include <algorithm>
#include <system_error>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "inter/blob/spool_files.h"

namespace causeway::diloco {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWeightsSaid = 32;  // versions
constexpr std::size_t kImagesKept = 6;    // on disk, each with a patch to the newest at most
constexpr std::uint64_t kRoomLeft = 3;    // snapshots, for the run itself

// Followers never fill the run's disk.
void leave_room(const fs::path& directory, const Snapshot& snapshot) {
  const std::uint64_t least = kRoomLeft * snapshot.blob.size_bytes;
  if (fs::space(directory).available >= least) return;
  throw std::system_error(
      std::make_error_code(std::errc::no_space_on_device),
      directory.string() + ": no weights for followers are made while less than " +
          std::to_string(least / 1'000'000) + " MB are free, which the run may need");
}

}  // namespace

WeightsShelf::WeightsShelf(const fs::path& directory, WeightsTools tools,
                           std::function<std::string(const std::string&)> sign)
    : directory_(directory / "weights"), tools_(std::move(tools)), sign_(std::move(sign)) {
  fs::remove_all(directory_);
}

void WeightsShelf::take(const std::string& run_id, const Snapshot& snapshot, const fs::path& file) {
  if (newest_ == snapshot) return;
  create_private_directories(directory_);
  leave_room(directory_, snapshot);
  const fs::path made = directory_ / "made";
  fs::remove(made);
  tools_.write_image(file, made);
  const inter::BlobId image = keep(made);
  images_.remove(image);
  images_.push_front(image);
  newest_ = snapshot;
  // The run may have gone back behind versions that were said.
  std::erase_if(weights_,
                [&](const SignedWeights& one) { return one.version >= snapshot.version; });
  SignedWeights weights{
      .version = snapshot.version, .state = snapshot.state, .image = image, .signature = {}};
  if (sign_) weights.signature = sign_(signed_content(run_id, weights));
  weights_.push_back(std::move(weights));
  if (weights_.size() > kWeightsSaid) weights_.pop_front();
  make_room();
}

bool WeightsShelf::has_news_for(const FollowerQuestion& question) {
  if (question.held) touch(*question.held);
  if (weights_.empty() || weights_.back().image == question.held) return false;
  const bool is_held_said = question.held && std::ranges::any_of(weights_, [&](const auto& one) {
                              return one.image == question.held;
                            });
  return !is_held_said || weights_.back().version >= question.first;
}

std::optional<inter::BlobId> WeightsShelf::patch_from(const inter::BlobId& held) {
  if (weights_.empty() || !is_here(held)) return std::nullopt;
  const inter::BlobId to = weights_.back().image;
  if (to == held || !is_here(to)) return std::nullopt;
  touch(held);
  const auto known = std::ranges::find_if(
      patches_, [&](const Patch& one) { return one.from == held && one.to == to; });
  if (known != patches_.end()) return known->patch;
  leave_room(directory_, *newest_);
  const fs::path made = directory_ / "made";
  fs::remove(made);
  try {
    tools_.write_patch(inter::blob_path(directory_, held), inter::blob_path(directory_, to), made);
  } catch (const std::system_error& error) {
    if (error.code() != make_error_code(Errc::malformed)) throw;
    return std::nullopt;
  }
  patches_.push_back({held, to, keep(made)});
  make_room();
  return patches_.back().patch;
}

// Under the name of its content.
inter::BlobId WeightsShelf::keep(const fs::path& made) {
  const inter::BlobId id = inter::identify(made);
  fs::rename(made, inter::blob_path(directory_, id));
  return id;
}

bool WeightsShelf::is_here(const inter::BlobId& image) const {
  return std::ranges::find(images_, image) != images_.end();
}

void WeightsShelf::touch(const inter::BlobId& image) {
  if (is_here(image)) images_.splice(images_.begin(), images_, std::ranges::find(images_, image));
}

// A patch to the version before the newest may be on its way.
void WeightsShelf::make_room() {
  const inter::BlobId newest = weights_.back().image;
  const inter::BlobId before = weights_.size() > 1 ? weights_[weights_.size() - 2].image : newest;
  while (images_.size() > kImagesKept) {
    const auto oldest =
        std::ranges::find_if(images_.rbegin(), images_.rend(), [&](const auto& one) {
          return one != newest;
        }).base();
    fs::remove(inter::blob_path(directory_, *std::prev(oldest)));
    images_.erase(std::prev(oldest));
  }
  for (auto patch = patches_.begin(); patch != patches_.end();) {
    const bool useful = (patch->to == newest || patch->to == before) && is_here(patch->from);
    if (!useful) fs::remove(inter::blob_path(directory_, patch->patch));
    patch = useful ? std::next(patch) : patches_.erase(patch);
  }
}

}  // namespace causeway::diloco
