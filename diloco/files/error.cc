#include "diloco/files/error.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace causeway::diloco {
namespace {

class Category : public std::error_category {
 public:
  const char* name() const noexcept override { return "diloco"; }
  std::string message(int code) const override {
    switch (static_cast<Errc>(code)) {
      case Errc::malformed:
        return "malformed data";
      case Errc::coordinator_lost:
        return "session with the coordinator ended";
      case Errc::lineage:
        return "state missing or of another run";
      case Errc::config_mismatch:
        return "regions do not share one configuration";
      case Errc::divergence:
        return "state differs from the other regions";
      case Errc::left_out:
        return "the region takes no part in the run any more";
    }
    return "unknown error";
  }
};

}  // namespace

std::error_code make_error_code(Errc code) {
  static const Category category;
  return {static_cast<int>(code), category};
}

void throw_lost(const std::string& why) {
  throw std::system_error(make_error_code(Errc::coordinator_lost), why);
}

bool is_storage_failure(const std::system_error& error) {
  if (error.code().category() != std::generic_category() &&
      error.code().category() != std::system_category()) {
    return false;
  }
  // Without a free descriptor no file can be opened either, and that passes as well.
  constexpr std::array kOfDisks{ENOSPC, EDQUOT, EFBIG, EIO, EROFS, EMFILE, ENFILE};
  return std::ranges::find(kOfDisks, error.code().value()) != kOfDisks.end();
}

}  // namespace causeway::diloco
