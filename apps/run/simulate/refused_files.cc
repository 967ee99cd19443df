#include "apps/run/simulate/refused_files.h"

namespace causeway::run {

bool RefusedFiles::attempt(const std::string& file, const std::function<void()>& write) {
  const bool in_trouble = !refused_.empty();
  try {
    write();
  } catch (const std::system_error& error) {
    refused_.insert_or_assign(file, error);
    if (in_trouble) return false;
    note_(file + " was not written: " + error.what() +
          ". Training goes on, and the files of the run are tried again. Make room or repair the "
          "disk");
    return false;
  }
  if (refused_.erase(file) > 0 && refused_.empty()) note_("all files of the run are written again");
  return true;
}

}  // namespace causeway::run
