#include "diloco/maths/layout.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "compression/base/codec.h"

namespace causeway::diloco {
namespace {

using compression::kChunk;

// Keeps every later sum of sizes, padding included, far from overflow.
constexpr std::size_t kElementsMax = std::size_t{1} << 48;

std::size_t round_up_to_chunk(std::size_t count) {
  return (count + kChunk - 1) / kChunk * kChunk;
}

SegmentClass class_of(const TensorSpec& spec) {
  if (spec.name.starts_with("average:")) return SegmentClass::averaged;
  if (spec.name.starts_with("lowest:")) return SegmentClass::lowest;
  return spec.shape.size() >= 2 ? SegmentClass::matrix : SegmentClass::vector;
}

void check(const TensorSpec& spec) {
  std::size_t count = 1;
  for (const std::int64_t dimension : spec.shape) {
    if (dimension <= 0) {
      throw std::invalid_argument(
          fmt::format("tensor '{}': dimension {} is not positive", spec.name, dimension));
    }
    if (static_cast<std::size_t>(dimension) > kElementsMax / count) {
      throw std::invalid_argument("tensor '" + spec.name + "': more than 2^48 elements");
    }
    count *= static_cast<std::size_t>(dimension);
  }
}

void check(std::span<const TensorSpec> tensors) {
  std::set<std::string_view> names;
  for (const TensorSpec& spec : tensors) {
    if (!names.insert(spec.name).second) {
      throw std::invalid_argument("tensor '" + spec.name + "' appears twice");
    }
    check(spec);
  }
}

// Cuts the run of whole chunks [begin, end) into segments.
void cut(std::size_t begin, std::size_t end, SegmentClass kind, std::vector<Segment>& segments) {
  while (begin < end) {
    const std::size_t count = std::min(end - begin, kSegmentElementsMax);
    segments.push_back({.offset = begin, .count = count, .kind = kind});
    begin += count;
  }
}

}  // namespace

std::size_t TensorSpec::count() const {
  return std::accumulate(
      shape.begin(), shape.end(), std::size_t{1},
      [](std::size_t product, std::int64_t d) { return product * static_cast<std::size_t>(d); });
}

Layout::Layout(std::vector<TensorSpec> tensors) {
  check(tensors);
  for (TensorSpec& spec : tensors) {
    parameter_count_ += spec.count();
    tensors_.push_back({.spec = std::move(spec)});
  }
  for (PlacedTensor& tensor : tensors_) {
    if (class_of(tensor.spec) != SegmentClass::matrix) continue;
    tensor.offset = size_;
    size_ += round_up_to_chunk(tensor.spec.count());
    cut(tensor.offset, size_, SegmentClass::matrix, segments_);
  }
  for (const SegmentClass kind :
       {SegmentClass::vector, SegmentClass::averaged, SegmentClass::lowest})
    pack(kind);
}

void Layout::pack(SegmentClass kind) {
  const std::size_t begin = size_;
  for (PlacedTensor& tensor : tensors_) {
    if (class_of(tensor.spec) != kind) continue;
    tensor.offset = size_;
    size_ += tensor.spec.count();
  }
  size_ = round_up_to_chunk(size_);
  cut(begin, size_, kind, segments_);
}

const PlacedTensor& Layout::find(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const PlacedTensor& t) { return t.spec.name == name; });
  if (found == tensors_.end()) throw std::out_of_range("no tensor '" + std::string(name) + "'");
  return *found;
}

const PlacedTensor& Layout::tensor_at(std::size_t element) const {
  assert(element < size_);
  // Tensors are never empty, so offsets differ and the last one at or before the element holds it
  // (or is the one whose padding it is).
  const PlacedTensor* holder = nullptr;
  for (const PlacedTensor& tensor : tensors_) {
    if (tensor.offset > element) continue;
    if (holder == nullptr || tensor.offset > holder->offset) holder = &tensor;
  }
  return *holder;
}

std::vector<std::size_t> Layout::assign(std::span<const std::size_t> segments,
                                        std::size_t workers) const {
  assert(workers > 0);
  // Largest first to the least loaded worker; every tie goes to the lower index, so all ranks
  // agree.
  std::vector<std::size_t> order(segments.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return segments_[segments[a]].count > segments_[segments[b]].count;
  });
  std::vector<std::size_t> load(workers);
  std::vector<std::size_t> owner(segments.size());
  for (const std::size_t place : order) {
    const auto lightest = std::min_element(load.begin(), load.end());
    *lightest += segments_[segments[place]].count;
    owner[place] = static_cast<std::size_t>(lightest - load.begin());
  }
  return owner;
}

namespace {

using Layer = std::uint32_t;

std::optional<Layer> layer_of(std::string_view name) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('.'));
    Layer layer = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), layer);
    if (error == std::errc() && end == part.data() + part.size()) return layer;
    name.remove_prefix(std::min(name.size(), part.size() + 1));
  }
  return std::nullopt;
}

std::vector<std::optional<Layer>> layers_of_segments(const Layout& layout) {
  std::vector<std::optional<Layer>> layers;
  for (const Segment& segment : layout.segments()) {
    const bool packed = segment.kind != SegmentClass::matrix;
    layers.push_back(packed ? std::nullopt : layer_of(layout.tensor_at(segment.offset).spec.name));
  }
  return layers;
}

// Which fragment each layer goes to; none if there are fewer layers than fragments.
std::map<Layer, std::size_t> place_layers(std::span<const std::optional<Layer>> of_segments,
                                          std::size_t count, FragmentOrder order) {
  std::set<Layer> layers;
  for (const auto& layer : of_segments) {
    if (layer) layers.insert(*layer);
  }
  std::map<Layer, std::size_t> places;
  if (layers.size() < count) return places;
  std::size_t position = 0;
  for (const Layer layer : layers) {
    const bool strided = order == FragmentOrder::strided;
    places[layer] = strided ? position % count : position * count / layers.size();
    ++position;
  }
  return places;
}

}  // namespace

Fragments::Fragments(const Layout& layout, std::uint32_t count, FragmentOrder order)
    : segments_(count) {
  const auto segments = layout.segments();
  if (count == 0 || (count > 1 && count > segments.size())) {
    throw std::invalid_argument(fmt::format(
        "a model of {} segments cannot be cut into {} fragments", segments.size(), count));
  }
  const auto layers = layers_of_segments(layout);
  const auto places = place_layers(layers, count, order);
  std::vector<std::size_t> load(count);
  std::vector<std::size_t> loose;
  const auto put = [&](std::size_t segment, std::size_t fragment) {
    segments_[fragment].push_back(segment);
    load[fragment] += segments[segment].count;
  };
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (layers[i] && !places.empty()) {
      put(i, places.at(*layers[i]));
    } else {
      loose.push_back(i);
    }
  }
  std::ranges::stable_sort(
      loose, [&](std::size_t a, std::size_t b) { return segments[a].count > segments[b].count; });
  for (const std::size_t segment : loose) {
    put(segment, static_cast<std::size_t>(std::ranges::min_element(load) - load.begin()));
  }
  for (auto& fragment : segments_) std::ranges::sort(fragment);
}

}  // namespace causeway::diloco
