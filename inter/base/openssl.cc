#include "inter/base/openssl.h"

#include <openssl/err.h>

#include "inter/base/error.h"
#include "inter/base/file.h"

namespace causeway::inter {

std::string take_openssl_error() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  if (ERR_SYSTEM_ERROR(error)) return std::generic_category().message(ERR_GET_REASON(error));
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "unknown OpenSSL error" : reason;
}

void throw_bad_credentials(const std::string& what) {
  const unsigned long error = ERR_peek_error();
  const std::error_code code(ERR_GET_REASON(error), std::generic_category());
  if (ERR_SYSTEM_ERROR(error) && fails_for_now(code)) {
    ERR_clear_error();
    throw std::system_error(code, what);
  }
  throw std::system_error(Errc::bad_credentials,
                          what + ": " + take_openssl_error() +
                              "; `causeway certs` makes certificates and keys, and "
                              "certificates.directory or --certificates says where they are");
}

}  // namespace causeway::inter
