// Follows a run: takes in the records that most regions have signed, computes the run's state from
// its payloads, bit for bit, and publishes it for whoever serves the model.
//
//   DIR/ledger/             the records, as a region has them
//   DIR/spool/              payloads since the state that is kept, as a region has them
//   DIR/state.safetensors   that state; a start goes on from it
//   DIR/versions/, current  what servers load (published_versions.h)
//
// Whatever ends it, at whatever instant, the next start goes on from there.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "apps/run/config/config.h"
#include "apps/run/follow/follow_loop.h"
#include "apps/run/follow/follow_report.h"
#include "apps/run/follow/followed_regions.h"
#include "apps/run/follow/followed_state.h"
#include "apps/run/follow/published_versions.h"
#include "apps/run/follow/signed_ledger.h"
#include "inter/blob/spool.h"

namespace causeway::run {

class Follower : public FollowLoop {
 public:
  // `config` and `report` outlive it. Throws std::system_error naming what cannot be used.
  Follower(asio::any_io_executor executor, const Config& config, FollowOptions options,
           FollowReport& report);

 private:
  void restore() override;
  asio::awaitable<bool> step(Link& link) override;
  void lose_link() override { told_ = {}; }
  std::string waits_for() const override { return unpublished_; }
  diloco::Round rounds() const override { return run_.rounds(); }
  diloco::Round version_here() const override { return state_ ? state_->version() : 0; }
  void check_run(const Link& link, const diloco::FollowerAnswer& answer);
  asio::awaitable<void> take_entries(Link& link, const diloco::FollowerAnswer& answer);
  asio::awaitable<void> confirm(const std::string& main, SignedLedger::Signatures& signatures);
  void on_taken();
  void know_members();

  asio::awaitable<bool> advance(Link& link);
  void drop_what_is_void();
  asio::awaitable<void> begin(Link& link);
  asio::awaitable<bool> is_agreed(Link& link, diloco::Snapshot snapshot);
  asio::awaitable<std::size_t> count_that_say(Link& link, diloco::Snapshot snapshot,
                                              std::optional<diloco::Applied> end);
  asio::awaitable<bool> take_round(Link& link, const diloco::CommitRecord& record);
  void check_digest(const diloco::CommitRecord& record);
  void save();
  void remove_old_payloads(const std::optional<diloco::Snapshot>& offered);
  nlohmann::ordered_json facts() const;
  void publish_if_due();
  bool is_published_already() const;
  void check_end(const std::string& region);

  std::filesystem::path state_file() const { return options_.directory / "state.safetensors"; }

  SignedLedger run_;
  std::unique_ptr<FollowedState> state_;
  std::optional<diloco::Snapshot> snapshot_;  // the newest, as the region that is asked says
  std::optional<diloco::Applied> finished_;   // likewise
  ToldEntries told_;                          // not confirmed yet
  std::string unpublished_;                   // why the newest version is not; empty: it is
  bool computed_ = false;                     // the state is our own work, rather than a snapshot
  bool proven_ = false;                       // a state that was our own work was the run's
};

}  // namespace causeway::run
