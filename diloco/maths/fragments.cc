#include "diloco/maths/fragments.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace causeway::diloco {
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
    throw std::invalid_argument("a model of " + std::to_string(segments.size()) +
                                " segments cannot be cut into " + std::to_string(count) +
                                " fragments");
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
