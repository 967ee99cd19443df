// The one failure of a link: a connection that ended, or bytes that a peer should not have sent.
// Caught where a link can be dialled again; anything else that escapes a link's coroutine is not a
// link's failure and reaches main.
#pragma once

#include <string>
#include <system_error>

#include "inter/base/error.h"

namespace causeway::inter {

class LinkError : public std::system_error {
 public:
  LinkError(std::error_code code, const std::string& reason)
      : std::system_error(code, reason), reason_(reason) {}

  // The message alone, as logs and handlers want it.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

}  // namespace causeway::inter
