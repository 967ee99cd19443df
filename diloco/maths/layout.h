// The flat layout: where every tensor lies in the one contiguous fp32 span that parameters,
// gradients, anchor, momentum and residual share, and how that span is cut into segments.
//
// Rules (canonical; every region computes the same layout from the same tensor list):
// - Matrices (two or more dimensions) come first, in list order, each starting on a chunk boundary
//   (4,096 elements) and padded with zeros to a whole number of chunks. Each is cut into segments
//   of at most 2^20 elements.
// - Vectors (one dimension) follow, packed one after the other without gaps, cut and padded the
//   same way.
// - What is no parameter but goes along with them (running statistics) follows, by its name: all
//   tensors "average:..." packed as vectors are, then all "lowest:...". The outer step of the
//   former is their weighted mean, of the latter what the first region has that is listed in its
//   own round.
// A padding element is zero in every span, always.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diloco/maths/train.h"

namespace causeway::diloco {

inline constexpr std::size_t kSegmentElementsMax = std::size_t{1} << 20;

struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t count() const;
};

struct PlacedTensor {
  TensorSpec spec;
  std::size_t offset = 0;  // element offset into the flat span
};

// Codec policy class of a segment. On the wire: do not renumber.
enum class SegmentClass : std::uint8_t { matrix = 1, vector = 2, averaged = 3, lowest = 4 };

// Numbers that no optimizer steps: they cross as they are, and no outer optimizer moves them.
constexpr bool is_statistic(SegmentClass kind) {
  return kind == SegmentClass::averaged || kind == SegmentClass::lowest;
}

struct Segment {
  std::size_t offset = 0;  // a multiple of 4,096
  std::size_t count = 0;   // a multiple of 4,096, padding included, at most kSegmentElementsMax
  SegmentClass kind = SegmentClass::matrix;
};

class Layout {
 public:
  // Throws std::invalid_argument naming the tensor if a name repeats or a dimension is not
  // positive.
  explicit Layout(std::vector<TensorSpec> tensors);

  std::size_t size() const { return size_; }                        // elements, padding included
  std::size_t parameter_count() const { return parameter_count_; }  // padding excluded
  std::span<const PlacedTensor> tensors() const { return tensors_; }
  std::span<const Segment> segments() const { return segments_; }
  const PlacedTensor& find(std::string_view name) const;     // throws std::out_of_range
  const PlacedTensor& tensor_at(std::size_t element) const;  // the tensor that holds a flat element

  // Owner of each of these segments among `workers`, in their order, balanced by elements:
  // deterministic.
  std::vector<std::size_t> assign(std::span<const std::size_t> segments, std::size_t workers) const;

 private:
  void pack(SegmentClass kind);

  std::vector<PlacedTensor> tensors_;
  std::vector<Segment> segments_;
  std::size_t size_ = 0;
  std::size_t parameter_count_ = 0;
};

// The parts of the model that take turns in being exchanged (Streaming DiLoCo, arXiv 2501.18512):
// each segment of the layout belongs to one fragment.
//
// Layers go whole: a tensor's layer is the first component of its name that is a number, as in
// blocks.3.mlp.up. Strided, layer i is in fragment i mod P; sequential, neighbours stay together.
// What is of no layer (embeddings, packed vectors) fills up the smallest fragments, segment by
// segment, and so does everything in a model of fewer layers than fragments.
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
