#include "diloco/ledger/checked_signatures.h"

#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_file.h"

namespace causeway::diloco {

CheckedSignatures::CheckedSignatures(std::filesystem::path file, std::string key)
    : file_(std::move(file)), key_(std::move(key)) {}

std::string CheckedSignatures::line() const {
  return fmt::format("{}:{}:{}", entries_, to_hex(head_), key_);
}

// Of what the line says only the number is read: the rest must come out again.
std::size_t CheckedSignatures::take(LedgerBytes& records) {
  const std::optional<std::string> bytes = read_file(file_);
  if (!bytes) return 0;
  const std::optional<std::string> said = line_without_checksum(*bytes);
  if (!said) {
    spdlog::warn("{} is damaged: all signatures of the ledger are checked again", file_.string());
    return 0;
  }
  Index count = 0;
  std::from_chars(said->data(), said->data() + said->size(), count);
  std::size_t end = 0;
  while (entries_ < count) {
    const std::string_view entry = entry_at(records, end);
    if (entry.empty()) break;
    add(entry);
    end += entry.size();
  }
  saved_ = entries_;
  if (line() == *said) return end;
  entries_ = saved_ = 0;
  head_ = {};
  return 0;
}

void CheckedSignatures::add(std::string_view entry) {
  head_ = chain_next(head_, std::string(entry));
  ++entries_;
}

void CheckedSignatures::add_up_to(Index entries, LedgerBytes& records, std::size_t begin) {
  while (entries_ < entries) {
    const std::string_view entry = entry_at(records, begin);
    if (entry.empty()) return;
    add(entry);
    begin += entry.size();
  }
}

void CheckedSignatures::save() {
  if (unsaved() == 0) return;
  try {
    replace_file(file_, line_with_checksum(line()), Durability::on_disk);
    saved_ = entries_;
  } catch (const std::system_error&) {  // a disk that fails shows it where something depends on it
  }
}

}  // namespace causeway::diloco
