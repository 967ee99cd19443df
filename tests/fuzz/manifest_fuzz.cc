// Any bytes are either the manifest of an archive or refused with RunError. What is taken names
// each file once, inside the directory that the archive is unpacked into, and its sizes can be
// summed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "apps/run/region/region_files.h"
#include "apps/run/transfer/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::run;
  Manifest manifest;
  try {
    manifest = parse_manifest({reinterpret_cast<const char*>(data), size});
  } catch (const RunError&) {
    return 0;
  }
  std::set<std::string> names;
  std::uint64_t sum = 0;
  for (const ArchivedFile& file : manifest.files) {
    const std::filesystem::path inside = std::filesystem::path("/stage") / file.name;
    if (inside.lexically_normal() != inside || !inside.native().starts_with("/stage/"))
      std::abort();
    if (!names.insert(file.name).second || __builtin_add_overflow(sum, file.size, &sum))
      std::abort();
  }
  if (sum != manifest.bytes()) std::abort();
  parse_manifest(to_json(manifest));
  return 0;
}
