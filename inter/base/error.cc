#include "inter/base/error.h"

namespace causeway::inter {
namespace {

class Category : public std::error_category {
 public:
  const char* name() const noexcept override { return "inter"; }
  std::string message(int code) const override {
    switch (static_cast<Errc>(code)) {
      case Errc::hash_mismatch:
        return "content does not match its hash";
      case Errc::spool_full:
        return "spool is full";
      case Errc::bad_frame:
        return "invalid frame";
      case Errc::frame_too_large:
        return "frame too large";
      case Errc::not_tls:
        return "peer does not speak TLS 1.3";
      case Errc::refused:
        return "handshake refused";
      case Errc::revoked:
        return "our certificate was revoked";
      case Errc::deadline:
        return "no progress within the deadline";
      case Errc::already_exists:
        return "already exists";
      case Errc::no_ca:
        return "no certificate authority";
      case Errc::bad_name:
        return "invalid region name";
      case Errc::bad_address:
        return "invalid address";
      case Errc::unreachable_peer:
        return "neither region can be dialled";
      case Errc::cannot_listen:
        return "no listening socket";
      case Errc::no_congestion_control:
        return "no such congestion control";
      case Errc::other_version:
        return "files of another version";
      case Errc::bad_credentials:
        return "unusable credentials";
      case Errc::not_valid_today:
        return "no certificate that is valid today";
    }
    return "unknown error";
  }
};

}  // namespace

std::error_code make_error_code(Errc code) {
  static const Category category;
  return {static_cast<int>(code), category};
}

bool is_refusal(const std::error_code& code) {
  return code == Errc::refused || code == Errc::revoked || code == Errc::not_valid_today;
}

}  // namespace causeway::inter
