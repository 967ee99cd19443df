#include "intra/base/error.h"

namespace causeway::intra {
namespace {

class Category : public std::error_category {
 public:
  const char* name() const noexcept override { return "intra"; }
  std::string message(int code) const override {
    switch (static_cast<Errc>(code)) {
      case Errc::bad_data:
        return "unusable data";
      case Errc::data_changed:
        return "the data changed";
      case Errc::bad_checkpoint:
        return "unusable checkpoint";
      case Errc::bad_model:
        return "impossible model settings";
      case Errc::bad_settings:
        return "unusable settings of the run";
      case Errc::collective:
        return "in-region collective failed";
      case Errc::not_finite:
        return "loss or gradient is not finite";
      case Errc::no_device:
        return "no such device";
      case Errc::rank_failed:
        return "a rank of this region failed";
      case Errc::interrupted:
        return "interrupted";
    }
    return "unknown error";
  }
};

}  // namespace

std::error_code make_error_code(Errc code) {
  static const Category category;
  return {static_cast<int>(code), category};
}

std::string message_of(const std::system_error& error) {
  std::string text = error.what();
  const std::string added = ": " + error.code().message();
  while (text.ends_with(added)) text.resize(text.size() - added.size());
  return text;
}

std::string message_said_once(const std::system_error& error) {
  const std::string text = message_of(error), words = error.code().message();
  return text.find(words) == std::string::npos ? text + ": " + words : text;
}

}  // namespace causeway::intra
