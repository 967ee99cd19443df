// The Gloo implementation of Collective: TCP, on the loopback interface if all ranks are on one
// host.
#pragma once

#include <memory>

#include "intra/collective/collective.h"

namespace causeway::intra {

// Needs a world of at least two. Throws as make_collective does. Gloo applies the deadline to each
// wait for a peer within an operation, and rounds it up to a second while ranks look for each
// other.
std::unique_ptr<Collective> make_gloo_collective(const Rendezvous& rendezvous);

}  // namespace causeway::intra
