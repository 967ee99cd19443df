// How this folder reports a failed operation.
#pragma once

#include <string>
#include <system_error>

#include "compression/base/codec.h"

namespace causeway::compression {

[[noreturn]] inline void fail(Errc code, const std::string& what) {
  throw std::system_error(make_error_code(code), what);
}

}  // namespace causeway::compression
