// inter's error category.
#pragma once

#include <string>
#include <system_error>

namespace causeway::inter {

// The one failure of a link: a connection that ended, or bytes that a peer should not have sent.
// Caught where a link can be dialled again; anything else that escapes a link's coroutine is not a
// link's failure and reaches main.
class LinkError : public std::system_error {
 public:
  LinkError(std::error_code code, const std::string& reason)
      : std::system_error(code, reason), reason_(reason) {}

  // The message alone, as logs and handlers want it.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

enum class Errc {
  hash_mismatch = 1,
  spool_full,
  bad_frame,  // a peer's bytes are not a valid frame
  frame_too_large,
  not_tls,   // the peer spoke something other than TLS 1.3
  refused,   // the peer, or we, refused the handshake; the message says why
  deadline,  // no progress within the deadline
  already_exists,
  no_ca,
  bad_name,
  bad_address,
  unreachable_peer,       // of two regions neither can be dialled
  cannot_listen,          // an address that is in use, or not this host's
  no_congestion_control,  // the kernel does not have or grant it
  revoked,                // the peer says so of our certificate
  other_version,          // files that another version of the program left
  bad_credentials,        // a certificate, key or revocation list that is missing or cannot be read
  not_valid_today,        // a certificate, ours or the peer's: a clock or a renewal may mend it
};
std::error_code make_error_code(Errc code);

// Whether one side does not want the other: dialling again would end the same way. With
// not_valid_today it may end otherwise later.
bool is_refusal(const std::error_code& code);

}  // namespace causeway::inter

template <>
struct std::is_error_code_enum<causeway::inter::Errc> : std::true_type {};
