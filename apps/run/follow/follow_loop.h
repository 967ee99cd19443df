// What both kinds of follower have in common: what they take and how they go on. Follower computes
// the run's whole state from payloads, WeightsFollower takes the weights alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "apps/run/config/config.h"
#include "apps/run/follow/follow_report.h"
#include "apps/run/follow/followed_regions.h"
#include "apps/run/follow/published_versions.h"
#include "diloco/maths/train.h"
#include "inter/blob/spool.h"
#include "intra/base/safetensors.h"

namespace causeway::run {

struct FollowOptions {
  std::filesystem::path directory;
  std::string self;  // as certified
  inter::Credentials credentials;
  std::vector<FollowedRegions::Address> addresses;  // the nearest first
  std::vector<std::string> trusted;                 // whose signatures count
  std::size_t signatures = 1;                       // of how many of them are needed
  bool weights_alone = false;                       // by patches, rather than by payloads
  diloco::Round every = 1;                          // publish every so many versions
  std::size_t kept = 2;                             // versions that stay, the newest included
  intra::StoredAs stored = intra::StoredAs::bf16;
  const char* dtype() const { return stored == intra::StoredAs::bf16 ? "bfloat16" : "float32"; }
  // Others follow this follower, and there is something new for them. Empty: nobody does.
  std::function<void()> tell = {};
};

// Regions that are in another run, or have other settings, than what is followed here. One region's
// word alone ends nobody, and a follower's counts for nothing: what follows throws inter::LinkError
// until options.signatures of the trusted regions say so.
class OtherRegions {
 public:
  // Throws ConfigError then.
  void check_settings(const FollowOptions& options, const Config& config, const std::string& region,
                      const std::string& settings);
  // Throws diloco::Errc::lineage then. `ours`: empty if it is not known yet.
  void check_run(const FollowOptions& options, const std::string& ours, const std::string& region,
                 const std::string& theirs);

 private:
  // Whether enough say so.
  static bool add(const FollowOptions& options, const std::string& region,
                  std::set<std::string>& regions);

  std::set<std::string> of_other_settings_, of_another_run_;
};

// One step after the other with the nearest region, or another one if that fails, until the run is
// over and its last version is published.
class FollowLoop {
 public:
  // `config` and `report` outlive it. Throws std::system_error naming what cannot be used.
  FollowLoop(asio::any_io_executor executor, const Config& config, FollowOptions options,
             FollowReport& report, std::chrono::milliseconds pause);
  virtual ~FollowLoop() = default;

  // Throws what cannot be waited out.
  asio::awaitable<void> run();

 protected:
  using Link = diloco::FollowerLink;

  virtual void restore() = 0;  // what an earlier process left
  // False: there was nothing that could be done, and a pause is due.
  virtual asio::awaitable<bool> step(Link& link) = 0;
  virtual void lose_link() {}                 // the last step failed, half-way perhaps
  virtual std::string waits_for() const = 0;  // empty: nothing keeps it
  virtual diloco::Round rounds() const = 0;   // of the run, as far as is known
  virtual diloco::Round version_here() const = 0;
  void show();

  const Config& config_;
  FollowOptions options_;
  FollowReport& report_;
  FollowedRegions regions_;
  inter::Spool spool_;
  PublishedVersions versions_;
  OtherRegions other_regions_;
  bool over_ = false;

 private:
  bool is_over_already();

  std::chrono::milliseconds pause_;
};

// Until the run is over and its last version is published, over disks that are full for a while.
// `config` and `report` outlive it. Throws what cannot be waited out.
asio::awaitable<void> follow(asio::any_io_executor executor, const Config& config,
                             const FollowOptions& options, FollowReport& report);

}  // namespace causeway::run
