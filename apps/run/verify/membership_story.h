// Entries of a ledger that are no rounds, in words: what each changed of those before it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "diloco/log/membership.h"
#include "diloco/log/raft_log.h"

namespace causeway::run {

// Given the entries in order.
class MembershipStory {
 public:
  std::string tell(const diloco::LogEntry& entry);
  nlohmann::json json(const diloco::LogEntry& entry);

 private:
  diloco::Membership known_;
};

}  // namespace causeway::run
