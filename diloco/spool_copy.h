// From a worker's file into the spool.
#pragma once

// Before any Asio header: Asio 1.22 chooses its allocator by what the standard headers have defined
// so far, and the choice must be the same in every source file.
#include "inter/spool.h"

#include <asio/awaitable.hpp>

namespace causeway::diloco {

// Copies a regular file piece by piece, letting other work run in between, so that a large snapshot
// does not silence the links. Throws std::system_error for a storage failure, a full spool, or a
// file that changes under the copy.
asio::awaitable<inter::BlobId> copy_to_spool(int file, inter::Spool& spool);

}  // namespace causeway::diloco
