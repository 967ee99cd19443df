#include "inter/openssl.h"

#include <openssl/err.h>

namespace causeway::inter {

std::string take_openssl_error() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "unknown OpenSSL error" : reason;
}

}  // namespace causeway::inter
