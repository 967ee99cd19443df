// Whether a test may use several OpenMP threads.
#pragma once

namespace causeway::test {

// libgomp is not built with TSan, which does not see its barriers and would report every element
// that a team wrote. The preset tsan runs all tests on one thread; those about threads skip.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kCanUseOpenMp = false;
#else
inline constexpr bool kCanUseOpenMp = true;
#endif

}  // namespace causeway::test
