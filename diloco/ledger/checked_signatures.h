// Up to where the signatures in `ledger/records` need no check at the next start: they were
// checked, or made, with the same key, and every byte is still the same. Of an old ledger
// these checks take most of the time in which it is opened.
//
// The file `ledger/checked-signatures` is a line (diloco/files/checked_file.h) of three parts with
// colons between them: how many entries, the end of a chain of hashes over their bytes (signatures
// included, which the ledger's own chain leaves out), and the public key's SHA-256.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "diloco/ledger/ledger_bytes.h"
#include "diloco/log/raft_log.h"
#include "diloco/maths/digest.h"

namespace causeway::diloco {

class CheckedSignatures {
 public:
  // `key`: the public one's SHA-256 in hex digits.
  CheckedSignatures(std::filesystem::path file, std::string key);

  // Begins with what the file says, and returns how many bytes of `records` that are. None if one
  // of them is another than it was, or another key was used. To be called once.
  std::size_t take(LedgerBytes& records);
  // The next entry, with its length: its signatures were checked, or made here.
  void add(std::string_view entry);
  // The same of `records` from `begin` on, which is where the next entry begins, up to this many
  // entries in all.
  void add_up_to(Index entries, LedgerBytes& records, std::size_t begin);

  Index unsaved() const { return entries_ - saved_; }
  // What was added must be on disk. If there is no room for it, the next start takes longer.
  void save();

 private:
  std::string line() const;

  std::filesystem::path file_;
  std::string key_;
  Index entries_ = 0, saved_ = 0;
  Digest head_{};
};

}  // namespace causeway::diloco
