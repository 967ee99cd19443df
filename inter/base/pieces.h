// What is large on its way between memory and a disk: piece by piece, by two threads. One copies a
// piece while the disk has the other's.
#pragma once

#include <cstddef>
#include <functional>

namespace causeway::inter {

// Half as much takes a tenth longer.
inline constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// Calls work(piece, thread) for each piece below `count`; `thread` is 0 or 1. Throws what `work`
// throws, and begins no piece after that.
void take_turns(std::size_t count,
                const std::function<void(std::size_t piece, std::size_t thread)>& work);

}  // namespace causeway::inter
