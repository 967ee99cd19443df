#include "intra/collective/collective.h"

#include <cassert>

#include "intra/collective/collective_gloo.h"

namespace causeway::intra {

std::unique_ptr<Collective> make_collective(const Rendezvous& rendezvous) {
  assert(rendezvous.rank < rendezvous.world);
  return rendezvous.world == 1 ? make_solo_collective() : make_gloo_collective(rendezvous);
}

}  // namespace causeway::intra
