#include "intra/base/float_mode.h"

#include <spdlog/spdlog.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace causeway::intra {
namespace {

// True if there was something to turn off.
bool stop_flushing() {
#if defined(__x86_64__)
  constexpr unsigned kFlushes = _MM_FLUSH_ZERO_MASK | 0x0040U;  // FTZ and DAZ of MXCSR
  const unsigned mode = _mm_getcsr();
  if ((mode & kFlushes) == 0) return false;
  _mm_setcsr(mode & ~kFlushes);
  return true;
#elif defined(__aarch64__)
  constexpr unsigned long kFlushes = 1UL << 24;  // FZ of FPCR
  unsigned long mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  if ((mode & kFlushes) == 0) return false;
  asm volatile("msr fpcr, %0" : : "r"(mode & ~kFlushes));
  return true;
#else
#error "Say here how this processor's flush-to-zero mode is turned off."
#endif
}

}  // namespace

void restore_float_mode() {
  if (stop_flushing()) spdlog::warn("a library had turned denormal numbers off; they are on again");
}

}  // namespace causeway::intra
