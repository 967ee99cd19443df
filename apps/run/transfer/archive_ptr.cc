#include "apps/run/transfer/archive_ptr.h"

#include <archive.h>

namespace causeway::run {

void ArchiveDeleter::operator()(::archive* handle) const {
  archive_free(handle);
}

std::string error_of(::archive* handle) {
  const char* text = archive_error_string(handle);
  return text == nullptr ? "unknown error" : text;
}

}  // namespace causeway::run
