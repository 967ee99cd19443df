#include "compression/base/codec.h"

namespace causeway::compression {
namespace {

class Category : public std::error_category {
 public:
  const char* name() const noexcept override { return "compression"; }
  std::string message(int code) const override {
    switch (static_cast<Errc>(code)) {
      case Errc::bad_spec:
        return "codec spec not understood";
      case Errc::malformed:
        return "malformed encoding";
      case Errc::not_finite:
        return "NaN or infinite value";
    }
    return "unknown error";
  }
};

}  // namespace

std::error_code make_error_code(Errc code) {
  static const Category category;
  return {static_cast<int>(code), category};
}

}  // namespace causeway::compression
