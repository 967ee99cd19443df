#include "diloco/worker/last_word.h"

#include <system_error>

#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"
#include "diloco/worker/worker.pb.h"
#include "diloco/worker/worker_messages.h"

namespace causeway::diloco {
namespace {

std::filesystem::path last_word_in(const std::filesystem::path& directory) {
  return directory / "last-word";
}

}  // namespace

void leave_last_word(const std::filesystem::path& directory, const LastWord& word) {
  worker_wire::LastWord note;
  note.set_run_id(word.run_id);
  *note.mutable_refused() = refusal(word.reason, word.kind).refused();
  replace_file(last_word_in(directory), with_checksum(note.SerializeAsString()),
               Durability::on_disk);
}

// Where a disk is read-only, removing what is not there fails too.
void take_back_last_word(const std::filesystem::path& directory) {
  const std::filesystem::path note = last_word_in(directory);
  if (std::filesystem::exists(std::filesystem::symlink_status(note))) std::filesystem::remove(note);
}

std::optional<LastWord> last_word(const std::filesystem::path& directory) {
  std::optional<std::string> bytes;
  try {
    bytes = read_file(last_word_in(directory));
  } catch (const std::system_error&) {  // the next look may find it
  }
  const std::optional<std::string> content = without_checksum(bytes.value_or(""));
  worker_wire::LastWord note;
  if (!content || !note.ParseFromString(*content) || !note.has_refused()) return std::nullopt;
  return LastWord{note.run_id(), note.refused().reason(), kind_of(note.refused())};
}

}  // namespace causeway::diloco
