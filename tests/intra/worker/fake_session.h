// What a worker holds of a fake run.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "tests/intra/worker/fake_run.h"

namespace causeway::intra {

class FakeRun::Session final : public diloco::WorkerSession {
 public:
  Session(FakeRun& run, const diloco::AttachRequest& request, std::uint64_t gathering)
      : run_(run), region_(request.region), gathering_(gathering) {
    const auto& ranks = run.regions_.at(region_).ranks;
    attachment_ = {
        .generation = region_ + "-" + std::to_string(gathering),
        .run_id = kRunId,
        .contributed = run.has_contribution && run.has_contribution(request),
        .rank = static_cast<std::uint32_t>(std::distance(ranks.begin(), ranks.find(request.rank))),
        .world = static_cast<std::uint32_t>(ranks.size())};
  }
  ~Session() override {
    const std::lock_guard lock(run_.mutex_);
    if (alive()) run_.disband(run_.regions_[region_]);
  }
  const diloco::Attachment& attachment() const override { return attachment_; }

  diloco::Instruction next(const KeepWaiting& keep_waiting, std::uint32_t) override {
    std::unique_lock lock(run_.mutex_);
    if (run_.lose_instead_of_telling && alive() && run_.lose_instead_of_telling(region_))
      run_.disband(run_.regions_[region_]);
    std::optional<diloco::Instruction> instruction;
    run_.wait(lock, keep_waiting, [&] {
      if (!alive()) return true;
      instruction = run_.instruction(region_);
      return instruction.has_value();
    });
    require_alive();
    return std::move(*instruction);
  }

  bool called_back() override {
    const std::lock_guard lock(run_.mutex_);
    require_alive();
    return run_.called_back && run_.called_back(region_);
  }

  void data_read(const diloco::DataDigests&) override {}
  bool await_stored() override { return stored_; }
  void hand_over(const diloco::Contribution& handed_over,
                 const diloco::SealedBytes& payload) override {
    diloco::Contribution contribution = handed_over;
    if (!payload.empty())
      contribution.payload = {diloco::tree_hash(payload.bytes()), payload.size()};
    const std::lock_guard lock(run_.mutex_);
    require_alive();
    EXPECT_EQ(contribution.region, region_);
    check_state(contribution.round, contribution.state);
    run_.contributions_.push_back(contribution);
    stored_ = !run_.no_room || !run_.no_room(contribution);
    if (!stored_) return;
    EXPECT_EQ(contribution.sits_out, payload.empty());
    if (!contribution.sits_out) {
      run_.offers_[{contribution.round, region_, contribution.part}] = {
          contribution, {payload.bytes().begin(), payload.bytes().end()}};
    }
    FakeRun::Region& region = run_.regions_[region_];
    if (region.contributions != contribution.round + 1) region.told = 0;
    region.contributions = contribution.round + 1;
    if (run_.lose_after_contribution && run_.lose_after_contribution(contribution)) {
      run_.disband(run_.regions_[region_]);
    }
    run_.commit_if_ready();
    require_alive();
  }

  void applied(diloco::Round version, const diloco::Digest& state) override {
    const std::lock_guard lock(run_.mutex_);
    require_alive();
    check_state(version, state);
    run_.regions_[region_].version = version;
  }

  void offer_snapshot(diloco::Round version, const diloco::Digest& state,
                      const std::filesystem::path& file) override {
    std::ifstream in(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto bytes = std::as_bytes(std::span(text));
    const std::lock_guard lock(run_.mutex_);
    run_.snapshot_ = {version, state, {bytes.begin(), bytes.end()}};
    run_.changed_.notify_all();
  }

  void report(const diloco::Progress& progress) override {
    if (run_.on_report) run_.on_report(region_, progress);
  }

  bool lost() override {
    const std::lock_guard lock(run_.mutex_);
    return !alive();
  }

 private:
  bool alive() const { return run_.regions_[region_].gathering == gathering_; }
  void require_alive() const {
    if (!alive()) throw std::system_error(diloco::Errc::coordinator_lost, "lost by the test");
  }
  void check_state(diloco::Round version, const diloco::Digest& state) {
    EXPECT_EQ(run_.states_.try_emplace(version, state).first->second, state)
        << region_ << " at version " << version;
  }

  FakeRun& run_;
  std::string region_;
  std::uint64_t gathering_;
  diloco::Attachment attachment_;
  bool stored_ = true;
};

inline std::unique_ptr<diloco::WorkerSession> FakeRun::join(const diloco::AttachRequest& request,
                                                            const KeepWaiting& keep_waiting) {
  std::unique_lock lock(mutex_);
  requests_.push_back(request);
  Region& region = regions_.at(request.region);
  // A rank that comes again ends the gathering that it was in.
  if (region.formed || region.ranks.contains(request.rank)) disband(region);
  region.ranks.emplace(request.rank, request);
  const std::uint64_t gathering = region.gathering;
  form_if_there(region);
  wait(lock, keep_waiting, [&] { return region.formed || region.gathering != gathering; });
  if (region.gathering != gathering) {
    throw std::system_error(diloco::Errc::coordinator_lost, "lost by the test while attaching");
  }
  return std::make_unique<Session>(*this, request, gathering);
}

}  // namespace causeway::intra
