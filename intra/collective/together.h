// A rank that fails alone would leave the others waiting for it in the next collective. Work that
// can fail on one rank only (bytes of its own segments, its own disk) runs through this, so that
// all fail together.
#pragma once

#include <array>
#include <exception>
#include <string>
#include <system_error>

#include "intra/base/error.h"
#include "intra/collective/collective.h"

namespace causeway::intra {

template <typename Work>
void together(Collective& collective, const std::string& what, Work&& work) {
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  std::array<float, 1> failures{failure ? 1.0F : 0.0F};
  collective.all_reduce_sum(failures);
  if (failure) std::rethrow_exception(failure);
  if (failures[0] > 0) {
    throw std::system_error(Errc::rank_failed,
                            what + " failed on another rank of this region; its log says why");
  }
}

}  // namespace causeway::intra
