// The first file of an archive that `causeway export` makes: what the archive holds.
//
//   causeway-export.json                     this
//   config.toml                              of the run, without commands
//   certificates/ca.crt, ca.crl, NAME.crt    public parts alone
//   regions/NAME/ledger/...                  records, and what the region knew of them
//   regions/NAME/spool/HASH-SIZE             the newest snapshot that the run confirmed
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::run {

struct ArchivedFile {
  std::string name;  // as above
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

// Of a region, in ledger/.
inline constexpr std::array<std::string_view, 5> kLedgerFiles{"run", "incarnation", "snapshot",
                                                              "finished", "records"};

inline constexpr char kManifestName[] = "causeway-export.json";
inline constexpr std::uint64_t kManifestBytesMax = 1 << 20;

std::string to_json(const Manifest& manifest);
// Of an untrusted archive. Throws ArchiveError: it is none, it is of a later version, it names a
// file that no export makes, or more bytes than can be counted.
Manifest parse_manifest(const std::string& text);

}  // namespace causeway::run
