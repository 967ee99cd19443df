// From a worker's file into the spool.
#pragma once

// Before any Asio header: Asio 1.22 chooses its allocator by what the standard headers have defined
// so far, and the choice must be the same in every source file.
#include "inter/blob/spool.h"

#include <memory>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "diloco/files/file_io.h"

namespace causeway::diloco {

// Throws std::system_error.
std::uint64_t size_of(const Descriptor& file);

struct Copied {
  std::unique_ptr<inter::Spool::Draft> draft;  // to be finished, or dropped; null: it is there
  inter::BlobId blob;
};

// Hashes, copies and syncs a regular file in `thread`, so that however large it is, no link and no
// election waits for it. What was written is read again before anybody is told of it, and written
// again if it is not what was read from the worker. Throws std::system_error for a storage failure,
// a full spool (inter::Errc::spool_full) that does not have it yet, or a file that shrinks under
// the copy. The spool outlives it.
asio::awaitable<Copied> copy_to_spool(Descriptor file, inter::Spool& spool,
                                      asio::any_io_executor thread);

}  // namespace causeway::diloco
