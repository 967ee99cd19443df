// A run without coordinators: what the regions' coordinators would say to their workers, decided in
// memory. Any number of regions and ranks, each in a thread of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "diloco/files/error.h"
#include "diloco/worker/worker_session.h"
#include "intra/worker/gathering.h"

namespace causeway::intra {

class FakeRun {
 public:
  FakeRun(std::vector<std::string> names, std::uint64_t rounds, std::uint32_t k)
      : names_(std::move(names)), rounds_(rounds), k_(k) {
    for (const std::string& name : names_) regions_[name];
  }

  // ---- What a test may change before it starts a worker ----
  // One contribution that a record lists.
  struct Listed {
    std::string region;
    std::optional<diloco::Round> round = {};  // none: the record's
    std::uint32_t part = 0;
  };
  // What a round waits for and lists, in order; default: all regions.
  std::function<std::vector<Listed>(diloco::Round)> listed;
  // Earlier rounds' contributions expire; default: everything that is not listed.
  std::function<diloco::Round(diloco::Round)> expired_before;
  // What a region is told while the round that it contributed to is open; nothing: to wait. `told`:
  // how often it was told something in this round since it attached. Called with the lock held.
  std::function<std::optional<diloco::Instruction>(const std::string& region, diloco::Round,
                                                   int told)>
      cut_off;
  // Whether a Continue is called back now.
  std::function<bool(const std::string& region)> called_back;
  // Regions whose coordinator has a contribution that the worker may not know of.
  std::function<bool(const diloco::AttachRequest&)> has_contribution;
  // Sees every progress report, without a lock held.
  std::function<void(const std::string& region, const diloco::Progress&)> on_report;
  // Called as a contribution arrives; true: the session is lost before the worker hears that it
  // did.
  std::function<bool(const diloco::Contribution&)> lose_after_contribution;
  // Called as a worker asks what to do; true: its session is lost before it hears.
  std::function<bool(const std::string& region)> lose_instead_of_telling;
  // Called as a contribution arrives; true: there is no room for it.
  std::function<bool(const diloco::Contribution&)> no_room;
  // The ranks that a region waits for when it gathers; default: all. May change while it runs.
  void expect_ranks(const std::string& region, std::set<std::uint32_t> ranks) {
    const std::lock_guard lock(mutex_);
    regions_.at(region).expected = std::move(ranks);
    form_if_there(regions_.at(region));
  }
  // What a region is told next is to adopt the initial weights.
  void start_over(const std::string& region) {
    const std::lock_guard lock(mutex_);
    regions_.at(region).starts_over = true;
  }
  // Regions below this version get the newest offered snapshot instead of records.
  diloco::Round replay_from = 0;
  // Steps that regions take while a round is decided, of the next.
  std::uint32_t ahead = 0;

  Attach attach() {
    return [this](const diloco::AttachRequest& request, const KeepWaiting& keep_waiting) {
      return join(request, keep_waiting);
    };
  }

  // ---- What happened ----
  std::vector<diloco::CommitRecord> records() const { return locked(records_); }
  std::vector<diloco::Contribution> contributions() const { return locked(contributions_); }
  std::vector<diloco::AttachRequest> requests() const { return locked(requests_); }
  std::map<diloco::Round, diloco::Digest> states() const { return locked(states_); }

 private:
  struct Region {
    std::uint64_t gathering = 1;  // being formed, or formed
    bool formed = false;
    std::map<std::uint32_t, diloco::AttachRequest> ranks;  // of this gathering
    std::optional<std::set<std::uint32_t>> expected;
    diloco::Round version = 0;
    std::uint64_t cursor = 0;         // after its listed contributions
    diloco::Round contributions = 0;  // next round that it may contribute to
    int told = 0;                     // in the round that it contributed to
    bool starts_over = false;
  };
  struct Offer {
    diloco::Contribution contribution;
    std::vector<std::byte> payload;
  };
  using OfferKey = std::tuple<diloco::Round, std::string, std::uint32_t>;
  struct Snapshot {
    diloco::Round version = 0;
    diloco::Digest state{};
    std::vector<std::byte> bytes;
  };

  class Session;

  template <typename T>
  T locked(const T& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  static diloco::MappedBytes mapped(std::span<const std::byte> bytes) {
    const int fd = ::memfd_create("fake", MFD_CLOEXEC);
    EXPECT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return diloco::MappedBytes(fd, bytes.size());
  }

  // Waits for `ready` under the lock; asks keep_waiting without it.
  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, const KeepWaiting& keep_waiting, Ready&& ready) {
    while (!ready()) {
      changed_.wait_for(lock, std::chrono::milliseconds(20));
      if (ready()) return;
      lock.unlock();
      const bool go_on = keep_waiting("the test");
      lock.lock();
      if (!go_on) throw std::system_error(std::make_error_code(std::errc::operation_canceled));
    }
  }

  std::unique_ptr<diloco::WorkerSession> join(const diloco::AttachRequest& request,
                                              const KeepWaiting& keep_waiting);

  // Ends the gathering for all its ranks.
  void disband(Region& region) {
    ++region.gathering;
    region.formed = false;
    region.ranks.clear();
    changed_.notify_all();
  }

  void commit_if_ready() {
    const diloco::Round round = records_.size();
    if (round == rounds_) return;
    std::vector<Listed> names;
    if (listed) {
      names = listed(round);
    } else {
      for (const std::string& name : names_) names.push_back({name});
    }
    diloco::CommitRecord record;
    record.run_id = kRunId;
    record.round = round;
    record.next_k = k_;
    record.expired_before = expired_before ? expired_before(round) : round + 1;
    for (const Listed& entry : names) {
      const diloco::Round of = entry.round.value_or(round);
      const auto offer = offers_.find({of, entry.region, entry.part});
      if (offer == offers_.end()) return;
      const diloco::Contribution& contribution = offer->second.contribution;
      record.participants.push_back({entry.region, of, entry.part,
                                     1.0F / static_cast<float>(names.size()),
                                     contribution.data_begin, contribution.data_cursor,
                                     contribution.tokens, contribution.payload});
    }
    record.state = states_.at(round);
    for (const auto& participant : record.participants) {
      regions_[participant.region].cursor = participant.data_cursor;
    }
    records_.push_back(record);
    changed_.notify_all();
  }

  // When all are there that are waited for, the first of them speaks for the region.
  void form_if_there(Region& region) {
    if (region.formed || region.ranks.empty()) return;
    const diloco::AttachRequest& leader = region.ranks.begin()->second;
    if (!region.expected && region.ranks.size() < leader.world) return;
    for (const std::uint32_t rank : region.expected.value_or(std::set<std::uint32_t>{}))
      if (!region.ranks.contains(rank)) return;
    region.version = leader.version;
    region.told = 0;
    region.formed = true;
    changed_.notify_all();
  }

  // What the region has to do, if anything.
  std::optional<diloco::Instruction> instruction(const std::string& name) {
    Region& region = regions_[name];
    if (std::exchange(region.starts_over, false)) return diloco::Restore{0, {}, mapped({})};
    if (region.version < replay_from) {
      if (snapshot_.version < replay_from) return {};
      return diloco::Restore{snapshot_.version, snapshot_.state, mapped(snapshot_.bytes)};
    }
    if (region.version < records_.size()) {
      const diloco::CommitRecord& record = records_[region.version];
      diloco::Apply apply{record, {}};
      for (const auto& participant : record.participants) {
        const OfferKey key{participant.round, participant.region, participant.part};
        apply.payloads.push_back(mapped(offers_.at(key).payload));
      }
      return apply;
    }
    if (records_.size() == rounds_) return diloco::Finish{rounds_};
    if (region.contributions > region.version) {
      if (!cut_off) return {};
      auto order = cut_off(name, region.version, region.told);
      if (order) ++region.told;
      return order;
    }
    return diloco::Train{region.version, k_, region.cursor, region.version * k_, {}, ahead};
  }

  static constexpr const char* kRunId = "run";

  const std::vector<std::string> names_;
  const std::uint64_t rounds_;
  const std::uint32_t k_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Region> regions_;
  std::map<OfferKey, Offer> offers_;
  std::vector<diloco::Contribution> contributions_;  // as they came
  std::vector<diloco::CommitRecord> records_;
  std::vector<diloco::AttachRequest> requests_;
  std::map<diloco::Round, diloco::Digest> states_;  // as the regions reported them; all must agree
  Snapshot snapshot_;
};

}  // namespace causeway::intra
