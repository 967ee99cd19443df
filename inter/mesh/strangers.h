// Connections that have not proved yet that they are a peer's. They cost memory and sockets, so
// there are at most kUnauthenticatedMax; those that were refused already and only have yet to close
// count as well, and are the first to go. Internal to inter.
#pragma once

#include <list>
#include <memory>

#include "inter/mesh/connection.h"

namespace causeway::inter {

class Strangers {
 public:
  using Pointer = std::shared_ptr<Connection>;

  // Closes another one if there are too many.
  void enter(const Pointer& connection);
  // It was told why, and is waited for to close.
  void refused(const Pointer& connection);
  void leave(const Pointer& connection);

 private:
  void make_room();

  std::list<Pointer> waiting_, refused_;  // oldest first
};

}  // namespace causeway::inter
