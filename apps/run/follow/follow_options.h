// What both kinds of follower take: Follower, which computes the run's whole state from payloads,
// and WeightsFollower, which takes the weights alone.
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
#include "diloco/maths/train.h"
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

// Whether all is there: the run is over, and its last version was published. Says so.
bool is_over(const FollowOptions& options, FollowReport& report);

asio::awaitable<void> pause_following(std::chrono::milliseconds length);

// Until the run is over and its last version is published, over disks that are full for a while.
// `config` and `report` outlive it. Throws what cannot be waited out.
asio::awaitable<void> follow(asio::any_io_executor executor, const Config& config,
                             const FollowOptions& options, FollowReport& report);

}  // namespace causeway::run
