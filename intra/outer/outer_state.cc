#include "intra/outer/outer_state.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace causeway::intra {

OuterState::OuterState(const diloco::Layout& layout, const Kept& kept)
    : params(layout.size()),
      anchor(kept.outer ? layout.size() : 0),
      momentum(kept.outer ? layout.size() : 0),
      residual(kept.residual ? layout.size() : 0),
      scratch(layout.size()) {}

diloco::Contribution InFlight::identified() const {
  diloco::Contribution made = contribution;
  if (!payload.empty()) made.payload = {payload.hash(), payload.bytes().size()};
  return made;
}

std::vector<float>& OuterState::flat(Flat which) {
  switch (which) {
    case Flat::params:
      return params;
    case Flat::anchor:
      return anchor;
    case Flat::momentum:
      return momentum;
    case Flat::residual:
      return residual;
    case Flat::mark:
      return mark;
    case Flat::scratch:
      break;
  }
  return scratch;
}

const InFlight* OuterState::own(std::uint32_t part) const {
  const auto found = std::find_if(in_flight.begin(), in_flight.end(), [&](const InFlight& entry) {
    return entry.contribution.round == version && entry.contribution.part == part;
  });
  return found == in_flight.end() ? nullptr : &*found;
}

InFlight* OuterState::own(std::uint32_t part) {
  return const_cast<InFlight*>(std::as_const(*this).own(part));
}

bool OuterState::contributed() const {
  return std::any_of(in_flight.begin(), in_flight.end(),
                     [this](const InFlight& entry) { return entry.contribution.round == version; });
}

bool OuterState::is_undelivered(const InFlight& made) const {
  return made.contribution.round == version && !made.stored &&
         (!made.payload.empty() || made.contribution.sits_out);
}

std::uint32_t OuterState::next_part() const {
  std::uint32_t part = 0;
  while (own(part) != nullptr) ++part;
  return part;
}

void OuterState::put_in_flight(InFlight made) {
  const auto order = [](const InFlight& entry) {
    return std::pair(entry.contribution.round, entry.contribution.part);
  };
  const auto place = std::find_if(in_flight.begin(), in_flight.end(), [&](const InFlight& entry) {
    return order(made) < order(entry);
  });
  in_flight.insert(place, std::move(made));
}

void OuterState::drop_own(std::uint32_t part) {
  std::erase_if(in_flight, [&](const InFlight& entry) {
    return entry.contribution.round == version && entry.contribution.part == part;
  });
}

std::uint32_t OuterState::step_in_round() const {
  std::uint32_t steps = work.steps;
  for (const InFlight& entry : in_flight) {
    if (entry.contribution.round == version) steps += entry.contribution.steps;
  }
  return steps;
}

void OuterState::forget_earlier_life(const std::string& own_region) {
  InFlight unknown;
  unknown.contribution.region = own_region;
  unknown.contribution.round = version;
  unknown.stored = true;
  adopt(version);
  put_in_flight(std::move(unknown));
}

void OuterState::adopt(diloco::Round new_version) {
  params = anchor;
  trees = {};
  std::fill(residual.begin(), residual.end(), 0.0F);
  mark.clear();
  work = {};
  for (InFlight& entry : in_flight) entry.payload = {};
  version = new_version;
  held_out_loss.reset();
}

diloco::Digest whole_digest(const OuterState& state) {
  return diloco::state_digest(diloco::merkle_root(diloco::merkle_leaves(state.anchor)),
                              diloco::merkle_root(diloco::merkle_leaves(state.momentum)));
}

diloco::Digest open_digest(const OuterState& state) {
  std::vector<std::byte> bytes;
  const auto add = [&bytes](const auto& value) {
    const auto view = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), view.begin(), view.end());
  };
  add(state.work.data_cursor);
  add(state.work.steps);
  add(state.confirmed_share);
  add(diloco::merkle_root(diloco::merkle_leaves(state.mark)));
  for (const InFlight& entry : state.in_flight) {
    add(entry.contribution.round);
    add(entry.contribution.part);
    add(entry.payload.empty() ? diloco::Digest{} : entry.payload.hash());
  }
  return diloco::sha256(bytes);
}

std::string describe_tensors(const diloco::Layout& layout) {
  std::string description;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    description += tensor.spec.name;
    for (const std::int64_t size : tensor.spec.shape) description += fmt::format(" {}", size);
    description += '\n';
  }
  return description;
}

std::optional<diloco::Layout> parse_tensors(const std::string& description,
                                            const std::string& expected) {
  std::vector<diloco::TensorSpec> tensors;
  std::istringstream lines(description);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    diloco::TensorSpec tensor;
    words >> tensor.name;
    for (std::int64_t extent = 0; words >> extent;) tensor.shape.push_back(extent);
    tensors.push_back(std::move(tensor));
  }
  try {
    diloco::Layout layout(std::move(tensors));
    if (fingerprint(layout) == expected) return layout;
  } catch (const std::invalid_argument&) {
  }
  return std::nullopt;
}

std::string fingerprint(const diloco::Layout& layout) {
  const std::string description = describe_tensors(layout);
  return diloco::to_hex(diloco::sha256(std::as_bytes(std::span(description))));
}

OwnPayload::OwnPayload(diloco::SealedBytes bytes)
    : sealed_(std::move(bytes)),
      // Where no more threads are allowed, it is made when it is asked for.
      hash_(std::async(std::launch::async | std::launch::deferred,
                       [sealed = sealed_] { return diloco::tree_hash(sealed.bytes()); })) {}

}  // namespace causeway::intra
