// The newest weights of a run, made from its snapshots for followers that want these alone, on
// disk: images, which are the same bytes wherever they are made, and patches, which make one image
// of another. DIR/weights/ has them, under the names that a spool's blobs have; what an earlier
// process left there is made anew.
//
// One thread. Nothing is made before somebody asks. Throws std::system_error where the disk or a
// snapshot fails; what is on the shelf stays there.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "diloco/follow/follow_messages.h"

namespace causeway::diloco {

// By whoever knows what is in a snapshot. Each writes its last argument, a file that is not there.
struct WeightsTools {
  std::function<void(const std::filesystem::path& snapshot, const std::filesystem::path& image)>
      write_image;
  // Throws Errc::malformed if there can be none between these two.
  std::function<void(const std::filesystem::path& from, const std::filesystem::path& to,
                     const std::filesystem::path& patch)>
      write_patch;
};

class WeightsShelf {
 public:
  // `sign`: what follows is said under this signature; empty: it is not signed.
  WeightsShelf(const std::filesystem::path& directory, WeightsTools tools,
               std::function<std::string(const std::string& content)> sign);

  // Takes in a snapshot of the run, whose file is `file`; no work if it is the one before.
  void take(const std::string& run_id, const Snapshot& snapshot, const std::filesystem::path& file);

  // What was taken in, as far as the run has not gone back on it: the newest last, few of them.
  const std::deque<SignedWeights>& weights() const { return weights_; }
  // What a follower holds is kept for a while by these two.
  // Whether the newest is of version question.first or later, and not what is held; or what is held
  // is not said any more.
  bool has_news_for(const FollowerQuestion& question);
  // From `held` to the newest; none: one of them is not here any more.
  std::optional<inter::BlobId> patch_from(const inter::BlobId& held);

 private:
  struct Patch {
    inter::BlobId from, to, patch;
  };
  inter::BlobId keep(const std::filesystem::path& made);
  bool is_here(const inter::BlobId& image) const;
  void touch(const inter::BlobId& image);
  void make_room();

  std::filesystem::path directory_;
  WeightsTools tools_;
  std::function<std::string(const std::string&)> sign_;
  std::optional<Snapshot> newest_;
  std::deque<SignedWeights> weights_;
  std::list<inter::BlobId> images_;  // that are here, the one that was needed last in front
  std::list<Patch> patches_;         // between these
};

}  // namespace causeway::diloco
