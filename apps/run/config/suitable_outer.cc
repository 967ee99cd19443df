#include "apps/run/config/suitable_outer.h"

#include <algorithm>
#include <cmath>

#include "apps/run/page/format.h"
#include "compression/base/codec.h"

namespace causeway::run {
namespace {

using Kind = diloco::OuterOptions::Kind;
using Mean = diloco::OuterOptions::Mean;

constexpr double kMomenta[] = {0.6, 0.8, 0.9};
constexpr double kLagMax = 0.05;                     // of momentum, share of the run's rounds
constexpr double kReach = 1.25, kReachInTime = 2.5;  // lr / (1 - momentum), of sqrt(R)
constexpr float kSendersRate = 1.2F;                 // lr of a sparse codec's mean over senders
constexpr double kRuinousOfSenders = 2;
constexpr double kRuinousReach = 3;  // of a sparse codec, likewise

bool muon(const Config& config) {
  return config.built_in_trainer() &&
         config.inner.optimizer == intra::InnerOptions::Optimizer::muon;
}

bool sparse(const Config& config) {
  return is_sparse(config.codec.matrix);
}

double square_root_of_regions(const Config& config) {
  return std::sqrt(double(config.regions.size()));
}

double momentum_for(double reach, double rounds) {
  double chosen = 0;
  for (const double momentum : kMomenta) {
    if (momentum * momentum / (1 - momentum) > kLagMax * rounds) break;
    chosen = momentum;
    if (reach * (1 - momentum) <= 1) break;
  }
  return chosen;
}

float two_decimals(double value) {
  return static_cast<float>(std::round(100 * value) / 100);
}

}  // namespace

diloco::OuterOptions suitable_outer(const Config& config) {
  diloco::OuterOptions chosen{.momentum = 0, .delay = config.outer.delay};
  if (sparse(config)) {
    chosen.kind = Kind::sgd;
    chosen.mean = muon(config) ? Mean::all : Mean::senders;
    chosen.lr = muon(config) ? two_decimals(square_root_of_regions(config)) : kSendersRate;
    return chosen;
  }
  // Steps of Muon, and contributions that come a round late, bear less.
  const bool less = muon(config) || config.overlap.variant == diloco::tuner::Variant::eager;
  const double reach = (less ? kReach : kReachInTime) * square_root_of_regions(config);
  const double momentum = momentum_for(reach, double(config.train.steps) / config.train.k);
  chosen.momentum = two_decimals(momentum);
  chosen.lr = two_decimals(std::min(1.0, reach * (1 - momentum)));
  return chosen;
}

void take_suitable_outer(Config& config) {
  config.outer = suitable_outer(config);
  config.outer_kind = config.outer.kind;
  config.outer_chosen = true;
}

std::string outer_concern(const Config& config) {
  const bool senders = config.outer.mean == Mean::senders;
  if (!sparse(config) || (config.outer.kind == Kind::sgd && !senders)) return {};
  const float momentum = config.outer.kind == Kind::sgd ? 0 : config.outer.momentum;
  const double reach = config.outer.lr / (1 - momentum);
  // What one region alone sent is not made smaller by the others, however many there are.
  if (reach <= (senders ? kRuinousOfSenders : kRuinousReach * square_root_of_regions(config)))
    return {};
  const diloco::OuterOptions chosen = suitable_outer(config);
  return "outer.optimizer: " + format_fixed(config.outer.lr, 2) +
         (momentum > 0 ? " with momentum " + format_fixed(momentum, 2) : "") +
         (senders ? " and the mean over senders" : "") +
         " moves the weights too far with a sparse codec, and training may diverge; set "
         "outer.optimizer = \"auto\", which chooses sgd with lr " +
         format_fixed(chosen.lr, 2) +
         (chosen.mean == Mean::senders ? " and the mean over senders" : "");
}

}  // namespace causeway::run
