// The outer step where outer.optimizer is "auto": the law that measurements support
// (docs/learning.md, "The outer step"; bench/RESULTS.md, "Overlap").
#pragma once

#include <string>

#include "apps/run/config/config.h"

namespace causeway::run {

// For this inner optimizer, codec, number of regions and of rounds. Everything but `outer` of the
// configuration is filled in.
//
//   sparse codec   SGD, as momentum would carry what a round sent of few values on into rounds that
//                  send others. With AdamW the mean over those that sent a value, and lr 1.2; with
//                  Muon the mean over all, and lr sqrt(R).
//   dense codec    Nesterov. It moves the weights lr / (1 - momentum) times as far as the regions
//                  agreed on, in the end: 2.5 sqrt(R) times with AdamW, whose steps are scaled by
//                  noise that the mean of R regions has less of, and 1.25 sqrt(R) times with Muon.
//                  Of the momenta 0.6, 0.8 and 0.9 the smallest with which lr is at most 1; but not
//                  one that lags, mu^2 / (1 - mu) rounds, by more than a twentieth of the run.
diloco::OuterOptions suitable_outer(const Config& config);
void take_suitable_outer(Config& config);

// What is known to go wrong with the outer step that was set, and what to set; empty: nothing.
std::string outer_concern(const Config& config);

}  // namespace causeway::run
