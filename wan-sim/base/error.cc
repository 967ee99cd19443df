#include "wan-sim/base/error.h"

namespace causeway::wan_sim {
namespace {

class Category : public std::error_category {
 public:
  const char* name() const noexcept override { return "wan_sim"; }
  std::string message(int code) const override {
    switch (static_cast<Errc>(code)) {
      case Errc::bad_scenario:
        return "bad scenario";
    }
    return "unknown error";
  }
};

}  // namespace

std::error_code make_error_code(Errc code) {
  static const Category category;
  return {static_cast<int>(code), category};
}

}  // namespace causeway::wan_sim
