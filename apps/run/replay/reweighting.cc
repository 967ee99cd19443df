#include "apps/run/replay/reweighting.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "apps/run/config/config.h"
#include "apps/run/verify/applied_payloads.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

template <typename Number>
bool read_number(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end;
}

Reweighting parse_place(const std::string& text, const std::string& message) {
  const std::size_t at = text.find('@');
  Reweighting parsed{.region = text.substr(0, at), .round = 0, .weight = {}};
  if (at == 0 || at == std::string::npos || !read_number(text.substr(at + 1), parsed.round))
    throw ConfigError(message);
  return parsed;
}

double sum_of_weights(const diloco::CommitRecord& record) {
  double sum = 0;
  for (const diloco::Participant& one : record.participants) sum += one.weight;
  return sum;
}

void refuse_if_not_listed(const diloco::CommitRecord& record, const std::string& region) {
  if (std::ranges::count(record.participants, region, &diloco::Participant::region) > 0) return;
  std::string listed;
  for (const diloco::Participant& one : record.participants) inter::append_item(listed, one.region);
  throw ConfigError(fmt::format("round {} does not list {}; it lists {}", record.round, region,
                                listed.empty() ? "nobody" : listed));
}

std::string flag_text(const Reweighting& change) {
  return change.weight
             ? fmt::format("--weight {}@{}={}", change.region, change.round, *change.weight)
             : fmt::format("--without {}@{}", change.region, change.round);
}

void leave_out(diloco::CommitRecord& record, const std::string& region) {
  const double before = sum_of_weights(record);
  std::erase_if(record.participants,
                [&](const diloco::Participant& one) { return one.region == region; });
  const double after = sum_of_weights(record);
  if (after == 0)
    throw ConfigError(fmt::format("without {} round {} would list nobody", region, record.round));
  for (diloco::Participant& one : record.participants)
    one.weight = static_cast<float>(one.weight * (before / after));
}

}  // namespace

Reweighting parse_without(const std::string& text) {
  return parse_place(text, "--without " + text + ": must be REGION@ROUND, such as eu-west@40");
}

Reweighting parse_weight(const std::string& text) {
  const std::string message =
      "--weight " + text + ": must be REGION@ROUND=WEIGHT, such as eu-west@40=0.25";
  const std::size_t equals = text.find('=');
  Reweighting parsed = parse_place(text.substr(0, equals), message);
  float weight = 0;
  if (equals == std::string::npos || !read_number(text.substr(equals + 1), weight) ||
      !std::isfinite(weight) || weight < 0) {
    throw ConfigError(message);
  }
  parsed.weight = weight;
  return parsed;
}

void check_each_once(const std::vector<Reweighting>& changes) {
  for (auto one = changes.begin(); one != changes.end(); ++one) {
    const auto again = std::find_if(one + 1, changes.end(), [&](const Reweighting& other) {
      return other.region == one->region && other.round == one->round;
    });
    if (again == changes.end()) continue;
    throw ConfigError(flag_text(*one) + " and " + flag_text(*again) +
                      " both change what one region gave to one round: keep one of them");
  }
}

diloco::CommitRecord reweighted(diloco::CommitRecord record,
                                const std::vector<Reweighting>& changes) {
  for (const Reweighting& change : changes) {
    if (change.round != record.round) continue;
    require_contributions(record, fmt::format("--{} {}@{}", change.weight ? "weight" : "without",
                                              change.region, change.round));
    refuse_if_not_listed(record, change.region);
    if (!change.weight) {
      leave_out(record, change.region);
      continue;
    }
    for (diloco::Participant& one : record.participants)
      if (one.region == change.region) one.weight = *change.weight;
  }
  return record;
}

namespace {

constexpr std::size_t kTensorsShown = 3;

std::string tensors_most_apart(const diloco::Layout& layout, std::span<const float> decided,
                               std::span<const float> changed) {
  std::vector<std::pair<double, std::string>> tensors;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    const auto of = [&](std::span<const float> all) {
      return all.subspan(tensor.offset, tensor.spec.count());
    };
    const std::vector<float> zeros(tensor.spec.count());
    tensors.emplace_back(apart(zeros, of(decided), of(changed)).norm_difference, tensor.spec.name);
  }
  std::ranges::sort(tensors, std::ranges::greater());
  std::string text;
  for (std::size_t i = 0; i < std::min(kTensorsShown, tensors.size()); ++i)
    inter::append_item(text, fmt::format("{} {:.6g}", tensors[i].second, tensors[i].first));
  return text;
}

}  // namespace

Apart apart(std::span<const float> origin, std::span<const float> a, std::span<const float> b) {
  double aa = 0, bb = 0, ab = 0, dd = 0;
  for (std::size_t i = 0; i < origin.size(); ++i) {
    const double x = double(a[i]) - origin[i], y = double(b[i]) - origin[i];
    aa += x * x;
    bb += y * y;
    ab += x * y;
    dd += (x - y) * (x - y);
  }
  const double norms = std::sqrt(aa) * std::sqrt(bb);
  return {std::sqrt(aa), std::sqrt(bb), std::sqrt(dd), norms > 0 ? ab / norms : 1};
}

std::vector<std::string> compare_moves(const diloco::Layout& layout, diloco::Round version,
                                       std::span<const float> before,
                                       std::span<const float> decided,
                                       std::span<const float> changed) {
  const Apart moves = apart(before, decided, changed);
  const std::string at = fmt::format("version {}: ", version);
  return {fmt::format("{}moved {:.6g} as decided, {:.6g} as changed, since the first changed round",
                      at, moves.norm_a, moves.norm_b),
          fmt::format("{}the difference has norm {:.6g}; the cosine of the two moves is {:.6g}", at,
                      moves.norm_difference, moves.cosine),
          at + "most apart: " + tensors_most_apart(layout, decided, changed)};
}

}  // namespace causeway::run
