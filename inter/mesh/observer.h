// Looks at a coordinator from outside: who may is a region of its run, or somebody with an
// observer's certificate, which is good for nothing else.
#pragma once

#include <chrono>
#include <string>

#include "inter/mesh/mesh.h"
#include "inter/tls/pki.h"

namespace causeway::inter {

// Of both sides: as large as the hosts believe the path to take them, or such as every path takes.
enum class Segments { large, small, large_then_small };

struct ObserverOptions {
  Endpoint address;  // that the coordinator listens on
  Credentials credentials;
  std::chrono::milliseconds deadline{10'000};  // of everything together
  // By default small ones are tried, too, where the connection stands and nothing is answered.
  Segments segments = Segments::large_then_small;
};

// What its MeshHandler::report() says. Each address of the name is tried, the next one as soon as
// one has not answered for a while: one that is dark does not take all the time. Blocks. Throws
// LinkError with the address, what went wrong and what to do: nobody there, other certificates, not
// entitled, no answer in time. Throws std::system_error naming a credential that cannot be used.
std::string observe(const ObserverOptions& options);

}  // namespace causeway::inter
