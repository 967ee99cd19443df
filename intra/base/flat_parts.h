// The two parts of a flat span.
#pragma once

#include <cstddef>

#include "diloco/maths/layout.h"

namespace causeway::intra {

// Matrices come first in a layout; the first vector ends them.
inline std::size_t matrices_end(const diloco::Layout& layout) {
  for (const diloco::Segment& segment : layout.segments()) {
    if (segment.kind == diloco::SegmentClass::vector) return segment.offset;
  }
  return layout.size();
}

}  // namespace causeway::intra
