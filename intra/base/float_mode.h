// Canonical numbers need denormals: the floating-point mode of a thread is inherited from whoever
// made it, and libraries change it.
#pragma once

namespace causeway::intra {

// Turns flush-to-zero and denormals-are-zero off on the calling thread; logs if something had
// turned them on.
void restore_float_mode();

}  // namespace causeway::intra
