// Looks at a coordinator from outside: who may is a region of its run, or somebody with an
// observer's certificate, which is good for nothing else.
#pragma once

#include <chrono>
#include <string>

#include "inter/mesh/mesh.h"
#include "inter/tls/pki.h"

namespace causeway::inter {

struct ObserverOptions {
  Endpoint address;  // that the coordinator listens on
  Credentials credentials;
  std::chrono::milliseconds deadline{10'000};  // of everything together
  int segment_bytes_max = 0;                   // of both sides; 0: as the path takes them
};

// What its MeshHandler::report() says. Blocks. Throws LinkError with the address, what went wrong
// and what to do: nobody there, other certificates, not entitled, no answer in time. Throws
// std::system_error naming a credential that cannot be used.
std::string observe(const ObserverOptions& options);

}  // namespace causeway::inter
