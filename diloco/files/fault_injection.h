// Whether this build can be made to fail on purpose: builds with tests can, others have no such
// code.
#pragma once

namespace causeway::diloco {

#ifdef CAUSEWAY_NO_FAULT_INJECTION
inline constexpr bool kFaultInjection = false;
#else
inline constexpr bool kFaultInjection = true;
#endif

}  // namespace causeway::diloco
