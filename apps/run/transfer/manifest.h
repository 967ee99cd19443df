// The first file of an archive that `causeway export` makes: what the archive holds.
//
//   causeway-export.json                     this
//   config.toml                              of the run
//   certificates/ca.crt, ca.crl, NAME.crt    public parts alone
//   regions/NAME/ledger/...                  records, and what the region knew of them
//   regions/NAME/spool/HASH-SIZE             the newest snapshot that the run confirmed
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace causeway::run {

struct ArchivedFile {
  std::string name;  // relative, with slashes
  std::uint64_t size = 0;
  std::string sha256;  // hexadecimal
};

struct Manifest {
  std::string run_id;
  std::string region;               // whose directory it was
  std::uint64_t rounds = 0;         // in the ledger
  std::uint64_t version = 0;        // of the snapshot
  std::vector<ArchivedFile> files;  // in the order in which they follow

  std::uint64_t bytes() const;  // of all files
};

inline constexpr char kManifestName[] = "causeway-export.json";
inline constexpr std::uint64_t kManifestBytesMax = 1 << 20;

std::string to_json(const Manifest& manifest);
// Of an untrusted archive. Throws RunError: it is none, it is of a later version, or a name in it
// leads out of the directory that the archive is unpacked into.
Manifest parse_manifest(const std::string& text);

}  // namespace causeway::run
