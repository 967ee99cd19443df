// A few Raft nodes in memory, messages delivered or dropped by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "diloco/log/raft.h"

namespace causeway::diloco {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RaftTest : public ::testing::Test {
 protected:
  // The first of the regions has founded the run; all vote.
  void build(const std::vector<std::string>& regions) {
    Membership membership;
    for (const std::string& region : regions) {
      membership = with(membership, {.region = region, .incarnation = region + "1"});
    }
    const RaftState state{
        .term = 1, .vote = {}, .log = {{.term = 1, .body = membership}}, .committed = 1};
    for (const std::string& region : regions) start(region, region + "1", state);
  }
  void start(const std::string& region, const std::string& incarnation, const RaftState& state) {
    nodes_[region] = std::make_unique<Raft>(RaftOptions{.self = region,
                                                        .incarnation = incarnation,
                                                        .heartbeat = milliseconds{100},
                                                        .election = seconds{1},
                                                        .seed = nodes_.size()},
                                            state);
    incarnations_[region] = incarnation;
  }
  void connect(const std::string& a, const std::string& b) {
    nodes_.at(a)->on_peer_up(b, incarnations_.at(b), now_);
    nodes_.at(b)->on_peer_up(a, incarnations_.at(a), now_);
  }
  void connect_all() {
    for (const auto& [a, node] : nodes_) {
      for (const auto& [b, other] : nodes_) {
        if (a < b) connect(a, b);
      }
    }
  }
  void cut_off(const std::string& region) {
    for (auto& [name, node] : nodes_) {
      if (name == region) continue;
      node->on_peer_down(region, now_);
      nodes_.at(region)->on_peer_down(name, now_);
    }
  }
  // Time passes, and whatever is said arrives at once.
  void run(Time duration) {
    for (const Time end = now_ + duration; now_ < end; now_ += milliseconds{10}) {
      for (auto& [region, node] : nodes_) node->tick(now_);
      while (deliver()) {
      }
    }
  }
  bool deliver() {
    bool any = false;
    for (auto& [region, node] : nodes_) {
      Raft::Output output = node->take();
      if (region == mute_) continue;
      for (LogEntry& entry : output.committed) committed_[region].push_back(std::move(entry));
      for (auto& [to, message] : output.messages) {
        if (watch_) watch_(message);
        nodes_.at(to)->on_message(region, message, now_);
        any = true;
      }
    }
    return any;
  }
  std::string leader() const {
    for (const auto& [region, node] : nodes_) {
      if (node->leads()) return region;
    }
    return {};
  }
  static CommitRecord record(Round round) {
    CommitRecord record;
    record.run_id = "run";
    record.round = round;
    record.participants = {{.region = "a"}};
    return record;
  }
  std::size_t records(const std::string& region) {
    return static_cast<std::size_t>(std::count_if(
        committed_[region].begin(), committed_[region].end(),
        [](const auto& entry) { return std::holds_alternative<CommitRecord>(entry.body); }));
  }

  Time now_{milliseconds{1}};
  std::map<std::string, std::unique_ptr<Raft>> nodes_;
  std::map<std::string, std::string> incarnations_;
  std::map<std::string, std::vector<LogEntry>> committed_;
  std::string mute_;  // it says nothing by itself
  std::function<void(const RaftMessage&)> watch_;
};

}  // namespace causeway::diloco
