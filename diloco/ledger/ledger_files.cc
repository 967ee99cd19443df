#include "diloco/ledger/ledger_files.h"

#include <system_error>

#include "diloco/files/checked_file.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/log/wire.h"
#include "diloco/maths/digest.h"

namespace causeway::diloco {
namespace {

// A one-line file; empty if it does not exist.
std::string read_line(const std::filesystem::path& path) {
  const auto text = line_without_checksum(read_file(path).value_or(""));
  if (!text)
    throw_damaged(path, "its checksum is not that of its text, or a later version wrote it");
  return *text;
}

void replace_line(const std::filesystem::path& path, const std::string& text) {
  replace_file(path, line_with_checksum(text), Durability::on_disk);
}

template <typename Wire>
void replace_checked(const std::filesystem::path& path, const Wire& message) {
  replace_file(path, with_checksum(message.SerializeAsString()), Durability::on_disk);
}

template <typename Wire>
Wire parse_checked(const std::string& bytes, const std::filesystem::path& path) {
  Wire message;
  const auto content = without_checksum(bytes);
  if (!content)
    throw_damaged(path, "its checksum is not that of its content, or a later version wrote it");
  if (!message.ParseFromString(*content)) throw_damaged(path, "cannot be parsed");
  return message;
}

template <typename Wire>
Wire parse_file(const std::filesystem::path& path) {
  const std::optional<std::string> bytes = read_file(path);
  return bytes ? parse_checked<Wire>(*bytes, path) : Wire();
}

}  // namespace

std::string read_run_id(const std::filesystem::path& ledger_directory) {
  return read_line(ledger_directory / "run");
}

void write_run_id(const std::filesystem::path& ledger_directory, const std::string& run_id) {
  replace_line(ledger_directory / "run", run_id);
}

std::string read_incarnation(const std::filesystem::path& ledger_directory) {
  const auto bytes = read_file(ledger_directory / "incarnation");
  const std::string name = line_without_checksum(bytes.value_or("")).value_or("");
  return is_random_name(name) ? name : "";
}

void write_incarnation(const std::filesystem::path& ledger_directory, const std::string& name) {
  replace_line(ledger_directory / "incarnation", name);
}

std::vector<Contribution> read_contributions(const std::filesystem::path& ledger_directory) {
  std::vector<Contribution> contributions;
  const auto file = parse_file<wire::Contributions>(ledger_directory / "contributions");
  for (const wire::Contribution& one : file.contributions()) contributions.push_back(decode(one));
  return contributions;
}

void write_contributions(const std::filesystem::path& ledger_directory,
                         std::span<const Contribution> contributions) {
  wire::Contributions file;
  for (const Contribution& one : contributions) encode(one, file.add_contributions());
  replace_checked(ledger_directory / "contributions", file);
}

std::optional<SignedFinish> read_finished(const std::filesystem::path& ledger_directory) {
  const std::filesystem::path path = ledger_directory / "finished";
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto file = parse_file<wire::FinishedFile>(path);
  if (file.state().size() != sizeof(Digest)) throw_damaged(path, "has no state");
  return SignedFinish{.at = {file.version(), decode_digest(file.state())},
                      .signature = file.signature()};
}

void write_finished(const std::filesystem::path& ledger_directory, const SignedFinish& finished) {
  wire::FinishedFile file;
  file.set_version(finished.at.version);
  encode(finished.at.state, file.mutable_state());
  file.set_signature(finished.signature);
  replace_checked(ledger_directory / "finished", file);
}

Snapshot parse_snapshot(const std::string& bytes, const std::filesystem::path& path) {
  const auto file = parse_checked<wire::Snapshot>(bytes, path);
  try {
    return decode(file);
  } catch (const std::system_error& error) {
    throw_damaged(path, error.what());
  }
}

std::optional<Snapshot> read_snapshot(const std::filesystem::path& path) {
  const std::optional<std::string> bytes = read_file(path);
  if (!bytes) return std::nullopt;
  return parse_snapshot(*bytes, path);
}

void write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot) {
  wire::Snapshot message;
  encode(snapshot, &message);
  replace_checked(path, message);
}

std::vector<std::string> damaged_files(const std::filesystem::path& ledger_directory) {
  std::vector<std::string> damaged;
  const auto checked = read_file(ledger_directory / "checked-signatures");
  if (checked && !line_without_checksum(*checked))
    damaged.push_back("its ledger/checked-signatures is damaged: its checksum is not right");
  for (const char* name : {"raft", "contributions", "snapshot", "finished"}) {
    const auto bytes = read_file(ledger_directory / name);
    if (bytes && !without_checksum(*bytes))
      damaged.push_back(std::string("its ledger/") + name +
                        " is damaged: its checksum is not that of its content");
  }
  if (read_incarnation(ledger_directory).empty())
    damaged.push_back("its ledger/incarnation is damaged or gone");
  return damaged;
}

}  // namespace causeway::diloco
