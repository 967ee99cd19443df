// Whether two regions ran the same history: their ledgers entry by entry, the states they reached
// after every round, and the numbers of their newest snapshots.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace causeway::run {

struct Verification {
  bool same = true;
  std::vector<std::string> lines;  // what was compared and found, for people
};

// `a` and `b` are region directories (with ledger/ in them). `certificates`: the directory of
// `causeway certs`, to check signatures with; empty: they are not checked. Throws std::system_error
// if a ledger is missing or damaged.
Verification verify(const std::filesystem::path& a, const std::filesystem::path& b,
                    const std::filesystem::path& certificates);

}  // namespace causeway::run
