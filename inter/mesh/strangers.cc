#include "inter/mesh/strangers.h"

#include <algorithm>
#include <map>
#include <string>

#include "inter/base/error.h"
#include "inter/base/limits.h"

namespace causeway::inter {
namespace {

// The oldest from the address that has most of them: a crowd from one address makes room for itself
// and keeps nobody out who comes from elsewhere.
Strangers::Pointer least_welcome(const std::list<Strangers::Pointer>& waiting) {
  std::map<std::string, std::size_t> counts;
  for (const auto& connection : waiting) {
    ++counts[connection->remote_host()];
  }
  return *std::max_element(waiting.begin(), waiting.end(), [&](const auto& a, const auto& b) {
    return counts[a->remote_host()] < counts[b->remote_host()];
  });
}

}  // namespace

void Strangers::enter(const Pointer& connection) {
  waiting_.push_back(connection);
  make_room();
}

void Strangers::refused(const Pointer& connection) {
  waiting_.remove(connection);
  refused_.push_back(connection);
  make_room();
}

void Strangers::leave(const Pointer& connection) {
  waiting_.remove(connection);
  refused_.remove(connection);
}

void Strangers::make_room() {
  if (waiting_.size() + refused_.size() <= kUnauthenticatedMax) {
    return;
  }
  const Pointer leaving = refused_.empty() ? least_welcome(waiting_) : refused_.front();
  leave(leaving);
  leaving->close(Errc::refused, "too many unauthenticated peers wait for their handshake");
}

}  // namespace causeway::inter
