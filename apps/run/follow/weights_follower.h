// Follows a run's weights alone, rounded to bf16: takes in an image (weights_image.h) that most
// regions have signed for one version, by way of a patch if there is one, and publishes it. It
// needs a quarter of the memory and few of the bytes that computing each round takes, and sees
// those versions only of which the regions make snapshots.
//
//   DIR/spool/              the image of the version that is published, under its hash
//   DIR/versions/, current  what servers load (published_versions.h)
//
// Whatever ends it, at whatever instant, the next start goes on from there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <nlohmann/json.hpp>

#include "apps/run/follow/follow_loop.h"
#include "apps/run/follow/published_versions.h"
#include "apps/run/follow/weights_votes.h"
#include "inter/blob/spool.h"

namespace causeway::run {

class WeightsFollower : public FollowLoop {
 public:
  // `config` and `report` outlive it. Throws std::system_error naming what cannot be used.
  WeightsFollower(asio::any_io_executor executor, const Config& config, FollowOptions options,
                  FollowReport& report);

 private:
  void restore() override;
  asio::awaitable<bool> step(Link& link) override;
  std::string waits_for() const override { return waits_for_; }
  diloco::Round rounds() const override { return agreed_; }
  diloco::Round version_here() const override { return held_ ? held_->version : 0; }
  diloco::FollowerQuestion question(bool wait) const;
  bool is_due(const diloco::SignedWeights& weights) const;
  std::optional<WeightsVotes::Agreed> choose(const WeightsVotes& votes,
                                             const diloco::FollowerAnswer& answer) const;
  void check(const Link& link, const diloco::FollowerAnswer& answer);
  asio::awaitable<WeightsVotes> hear(Link& link, const diloco::FollowerAnswer& answer);
  asio::awaitable<bool> bring(Link& link, const diloco::SignedWeights& wanted,
                              const std::optional<inter::BlobId>& patch);
  asio::awaitable<bool> bring_patch(Link& link, const diloco::SignedWeights& wanted,
                                    inter::BlobId patch);
  void refuse_patch(const std::string& why);
  void publish(const WeightsVotes::Agreed& agreed, bool final);
  void tidy_spool(const inter::BlobId& kept);
  void finish();

  std::string run_id_;                         // empty: not known yet
  std::optional<diloco::SignedWeights> held_;  // published, and its image is in the spool
  diloco::Round agreed_ = 0;                   // the newest version that enough have signed
  std::string waits_for_;                      // why there is no other; empty: it is not known
};

}  // namespace causeway::run
