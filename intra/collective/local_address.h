// Where other hosts find this one.
#pragma once

#include <string>

namespace causeway::intra {

// The numeric address of this host on the network by which `host` is reached. Throws
// std::system_error (Errc::collective) naming the host.
std::string local_address_towards(const std::string& host);

// The interface that has that address, "eth0"; empty if none has it any more. Throws likewise.
std::string interface_towards(const std::string& host);

}  // namespace causeway::intra
