// The parts of the model that take turns in being exchanged (Streaming DiLoCo, arXiv 2501.18512):
// each segment of the layout belongs to one fragment.
//
// Layers go whole: a tensor's layer is the first component of its name that is a number, as in
// blocks.3.mlp.up. Strided, layer i is in fragment i mod P; sequential, neighbours stay together.
// What is of no layer (embeddings, packed vectors) fills up the smallest fragments, segment by
// segment, and so does everything in a model of fewer layers than fragments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "diloco/maths/layout.h"
#include "diloco/maths/round_number.h"

namespace causeway::diloco {

enum class FragmentOrder { strided, sequential };

class Fragments {
 public:
  // Throws std::invalid_argument if the model has fewer segments than `count`.
  Fragments(const Layout& layout, std::uint32_t count, FragmentOrder order);

  std::size_t count() const { return segments_.size(); }
  std::size_t of_round(Round round) const { return round % count(); }
  // Its segments, ascending.
  std::span<const std::size_t> segments(std::size_t fragment) const { return segments_[fragment]; }

 private:
  std::vector<std::vector<std::size_t>> segments_;
};

}  // namespace causeway::diloco
