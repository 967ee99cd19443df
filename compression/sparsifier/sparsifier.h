// Sparsifiers: which elements of a segment are kept. A new one is one file and one line in the
// table of make_codec.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "compression/base/codec.h"
#include "compression/base/spec.h"

namespace causeway::compression {

class Sparsifier {
 public:
  // Called for each chunk in order with its kept positions, ascending; there may be none.
  using Visit = std::function<void(std::size_t chunk, std::span<const std::uint16_t> positions)>;

  virtual ~Sparsifier() = default;

  // Name and settings as they stand in a codec's spec, e.g. "topk:k=64,chunk=4096".
  virtual std::string spec() const = 0;

  // The most positions that a chunk can get, and whether one can get fewer.
  virtual std::size_t count_max() const = 0;
  virtual bool count_varies() const = 0;

  // `segment`: finite, a positive multiple of kChunk. What chunk i gets depends on chunk i alone
  // unless count_varies().
  virtual void select(std::span<const float> segment, const Visit& visit) const = 0;
};

// The sparsifiers behind the families of make_codec.cc. Each takes its settings from the spec and
// throws Errc::bad_spec.
std::unique_ptr<Sparsifier> make_topk(Spec& spec);
std::unique_ptr<Sparsifier> make_threshold(Spec& spec);

}  // namespace causeway::compression
