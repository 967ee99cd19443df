// What is large on its way between memory and a disk, past the kernel's cache: piece by piece, by
// two threads. One copies a piece while the disk has the other's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace causeway::inter {

inline constexpr std::size_t kPieceBytes = std::size_t{4}
                                           << 20;  // half as much takes a tenth longer

// Calls work(i, buffer) for each i below `count`. A buffer has kPieceBytes from the beginning of a
// page on, and is one thread's. Throws what `work` throws first, and begins no piece after that.
void take_turns(std::size_t count,
                const std::function<void(std::size_t piece, std::span<std::byte> buffer)>& work);

// Fills `out` with what an open file has from `offset` on. What the kernel has in its cache comes
// from there. False: the file has less, or its file system has no way past the cache; `out` may be
// half filled then, and is read as usual.
bool read_pieces(int descriptor, std::uint64_t offset, std::span<std::byte> out);

}  // namespace causeway::inter
