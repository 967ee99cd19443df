#include "diloco/coordinator/origin.h"

#include <fcntl.h>

#include <cerrno>
#include <limits>
#include <optional>
#include <system_error>
#include <vector>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger.h"
#include "diloco/worker/worker_session.h"
#include "inter/blob/spool.h"
#include "inter/blob/spool_files.h"

namespace causeway::diloco {
namespace {

namespace fs = std::filesystem;

struct Found {
  fs::path region;  // its directory
  Snapshot snapshot;
};

[[noreturn]] void refuse(const fs::path& run, const std::string& what) {
  throw std::system_error(make_error_code(Errc::lineage), "--fork " + run.string() + ": " + what);
}

std::vector<fs::path> regions_of(const fs::path& run) {
  std::vector<fs::path> regions;
  if (fs::exists(run / "regions")) {
    for (const auto& entry : fs::directory_iterator(run / "regions")) {
      regions.push_back(entry.path());
    }
  } else {
    regions.push_back(run);
  }
  std::erase_if(regions,
                [](const fs::path& region) { return read_run_id(region / "ledger").empty(); });
  if (regions.empty()) {
    refuse(run,
           "holds no run; name the directory of a run or of one of its regions, such as "
           "runs/NAME/REGION");
  }
  return regions;
}

Found newest_snapshot(const fs::path& run) {
  std::optional<Found> newest;
  for (const fs::path& region : regions_of(run)) {
    const auto snapshot = read_snapshot(region / "ledger" / "snapshot");
    if (!snapshot) continue;
    if (!newest || snapshot->version > newest->snapshot.version) newest = {region, *snapshot};
  }
  if (!newest) {
    refuse(run,
           "has no snapshot yet; one is made every train.checkpoint_rounds rounds and at the "
           "end");
  }
  return *newest;
}

// Only what has the announced hash is taken.
void copy(const Found& found, inter::Spool& spool) {
  const inter::BlobId& blob = found.snapshot.blob;
  const fs::path file = inter::blob_path(found.region / "spool", blob);
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) {
    refuse(found.region, "its snapshot was replaced while it was read; try again");
  }
  if (descriptor < 0) throw_errno("open", file);
  const MappedBytes content(descriptor, blob.size_bytes);
  if (spool.put(content.bytes()) == blob) return;
  refuse(found.region, "its snapshot " + file.string() + " is damaged; take another region's");
}

}  // namespace

Origin take_origin(const fs::path& run, const fs::path& spool) {
  const Found found = newest_snapshot(run);
  inter::Spool own(spool, std::numeric_limits<std::uint64_t>::max());
  copy(found, own);
  return {.run_id = read_run_id(found.region / "ledger"),
          .version = found.snapshot.version,
          .state = found.snapshot.state,
          .blob = found.snapshot.blob};
}

}  // namespace causeway::diloco
