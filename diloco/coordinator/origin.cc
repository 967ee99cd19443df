#include "diloco/coordinator/origin.h"

#include <fcntl.h>

#include <cerrno>
#include <limits>
#include <string>
#include <system_error>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/files/mapped_bytes.h"
#include "inter/blob/spool.h"

namespace causeway::diloco {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& snapshot, const std::string& what) {
  throw std::system_error(make_error_code(Errc::lineage), snapshot.string() + what);
}

}  // namespace

void copy_origin(const Fork& fork, const std::filesystem::path& spool) {
  const int descriptor = ::open(fork.snapshot.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) {
    refuse(fork.snapshot, " was replaced by a newer snapshot while it was read; try again");
  }
  if (descriptor < 0) throw_errno("open", fork.snapshot);
  const MappedBytes content(descriptor, fork.origin.blob.size_bytes);
  inter::Spool own(spool, std::numeric_limits<std::uint64_t>::max());
  if (own.put(content.bytes()) == fork.origin.blob) return;
  refuse(fork.snapshot, " is damaged; take another region's directory");
}

}  // namespace causeway::diloco
