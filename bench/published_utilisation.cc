// The bandwidth that a utilisation needs: Streaming DiLoCo's Table 4 (arXiv 2501.18512), cell by
// cell, from a timeline of layers over the virtual WAN.
//
// Two replicas, K = 100. A step is a forward pass of a third of its time, layer by layer, and a
// backward pass back again. What a layer has to send leaves when its backward pass is done, and its
// forward pass waits for what comes back, tau steps later. Payloads are 16 bits per parameter, or
// 4, sent once; the link has a rate and nothing else. The paper's simulator looked at 50 bandwidths
// between 0.1 and 1000 Gbit/s, evenly spaced in the logarithm: ours is snapped to the nearest.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "wan-sim/virtual/virtual_wan.h"

namespace {

using namespace causeway::wan_sim;

constexpr int kGridPoints = 50;
constexpr double kGridLow = 0.1, kGridHigh = 1000;  // Gbit/s
constexpr std::array kUtilisations = {0.5, 0.8, 0.9, 0.95, 0.99};
constexpr double kForwardShare = 1.0 / 3;
constexpr double kScale = 1e-3;  // of bits and rates, which only matter together

struct Model {
  const char* name;
  double parameters, step_s;
  int layers, fragments;
};
struct Method {
  const char* name;
  int k;
  bool fragmented;
  int overlap_steps;
  double bits;
};
constexpr std::array kModels = {Model{"1B", 1e9, 0.1, 24, 8}, Model{"10B", 1e10, 0.8, 48, 16},
                                Model{"100B", 1e11, 4.9, 108, 36}};
constexpr std::array kMethods = {
    Method{"data-parallel", 1, false, 0, 16}, Method{"DiLoCo", 100, false, 0, 16},
    Method{"streaming", 100, true, 0, 16}, Method{"+ overlap", 100, true, 1, 16},
    Method{"+ 4 bits", 100, true, 1, 4}};
constexpr double kPublished[3][5][5] = {{{86.8, 152.6, 184.2, 222.3, 569.0},
                                         {1.4, 6.2, 13.3, 23.3, 86.8},
                                         {1.4, 5.2, 9.1, 16.0, 28.1},
                                         {1.4, 4.3, 6.2, 9.1, 11.0},
                                         {0.4, 0.9, 1.7, 2.0, 3.0}},
                                        {{104.8, 222.3, 222.3, 268.3, 471.5},
                                         {1.7, 7.5, 16.0, 33.9, 104.8},
                                         {1.7, 5.2, 9.1, 13.3, 19.3},
                                         {1.7, 3.6, 5.2, 6.2, 7.5},
                                         {0.4, 0.9, 1.4, 1.4, 1.7}},
                                        {{184.2, 323.8, 390.7, 390.7, 471.5},
                                         {3.0, 11.0, 23.3, 49.4, 184.2},
                                         {2.4, 6.2, 9.1, 11.0, 19.3},
                                         {1.7, 3.6, 4.3, 5.2, 5.2},
                                         {0.5, 0.9, 1.1, 1.1, 1.4}}};

Scenario one_link(double gbit_s) {
  Scenario scenario;
  scenario.regions = {"a", "b"};
  LinkProfile profile;
  profile.rate_bytes_per_s = kScale * gbit_s * 1e9 / 8;
  scenario.links[{"a", "b"}] = scenario.links[{"b", "a"}] = profile;
  return scenario;
}

// One replica; the other does the same at the same time.
class Timeline {
 public:
  Timeline(const Model& model, const Method& method, double gbit_s)
      : model_(model),
        method_(method),
        wan_(one_link(gbit_s), {.mode = VirtualMode::fluid}),
        flow_(wan_.network().open("a", "b", 1, true,
                                  [this](std::uint64_t bytes) { arrived_ += bytes; })),
        needed_(static_cast<std::size_t>(model.layers)) {}

  double utilisation() {
    // The first period fills the pipe; the second counts.
    const int period = method_.k == 1 ? 8 : method_.k;
    for (int i = 0; i < period; ++i) step(i);
    const double begin_s = in_seconds(wan_.now());
    for (int i = period; i < 2 * period; ++i) step(i);
    return period * model_.step_s / (in_seconds(wan_.now()) - begin_s);
  }

 private:
  int fragments() const { return method_.fragmented ? model_.fragments : 1; }
  // Strided: layer i is in fragment i mod P, and fragments take turns within K steps.
  bool sends(int layer, int index) const {
    const int turn = (layer % fragments()) * method_.k / fragments();
    return (index + 1) % method_.k == turn % method_.k;
  }

  void compute(double seconds) {
    wan_.run_until(wan_.now() + Time(static_cast<Time::rep>(seconds * 1e9)));
  }

  void step(int index) {
    const double forward_s = kForwardShare * model_.step_s / model_.layers;
    const double backward_s = (1 - kForwardShare) * model_.step_s / model_.layers;
    for (int layer = 0; layer < model_.layers; ++layer) {
      const Need& need = needed_[static_cast<std::size_t>(layer)];
      while (index >= need.step && arrived_ < need.bytes && wan_.step(Time::max())) {
      }
      compute(forward_s);
    }
    for (int layer = model_.layers; layer-- > 0;) {
      compute(backward_s);
      if (!sends(layer, index)) continue;
      const double bytes = kScale * method_.bits / 8 * model_.parameters / model_.layers;
      offered_ += static_cast<std::uint64_t>(bytes);
      wan_.network().offer(flow_, static_cast<std::uint64_t>(bytes), wan_.now());
      needed_[static_cast<std::size_t>(layer)] = {index + 1 + method_.overlap_steps, offered_};
    }
  }

  struct Need {
    int step = 0;
    std::uint64_t bytes = 0;
  };
  const Model& model_;
  const Method& method_;
  VirtualWan wan_;
  std::uint64_t arrived_ = 0, offered_ = 0;
  VirtualNetwork::FlowId flow_;
  std::vector<Need> needed_;
};

double gbit_s_needed(const Model& model, const Method& method, double utilisation) {
  double low = kGridLow / 2, high = kGridHigh * 2;
  for (int i = 0; i < 18; ++i) {
    const double middle = std::sqrt(low * high);
    (Timeline(model, method, middle).utilisation() < utilisation ? low : high) = middle;
  }
  return high;
}

int nearest_on_grid(double gbit_s) {
  const double place =
      (kGridPoints - 1) * std::log(gbit_s / kGridLow) / std::log(kGridHigh / kGridLow);
  return std::clamp(static_cast<int>(std::lround(place)), 0, kGridPoints - 1);
}
double on_grid(int point) {
  return kGridLow * std::pow(kGridHigh / kGridLow, double(point) / (kGridPoints - 1));
}

}  // namespace

int main() {
  int cells = 0, equal = 0, adjacent = 0, farther = 0, worst = 0;
  std::string exceptions;
  std::printf("Gbit/s for a utilisation of 50 / 80 / 90 / 95 / 99 %%: ours (published)\n");
  for (std::size_t m = 0; m < kModels.size(); ++m) {
    for (std::size_t method = 0; method < kMethods.size(); ++method) {
      std::printf("%-5s %-14s", kModels[m].name, kMethods[method].name);
      for (std::size_t u = 0; u < kUtilisations.size(); ++u) {
        const double needed = gbit_s_needed(kModels[m], kMethods[method], kUtilisations[u]);
        const double published = kPublished[m][method][u];
        const int steps = std::abs(nearest_on_grid(needed) - nearest_on_grid(published));
        std::printf("  %6.1f (%5.1f)%s", on_grid(nearest_on_grid(needed)), published,
                    steps == 0 ? " " : std::to_string(steps).c_str());
        ++cells;
        (steps == 0 ? equal : steps == 1 ? adjacent : farther) += 1;
        worst = std::max(worst, steps);
        if (steps > 1)
          exceptions += std::string("  ") + kModels[m].name + " " + kMethods[method].name + "\n";
      }
      std::printf("\n");
    }
  }
  std::printf("%d cells: %d equal, %d adjacent (%.0f %% together), %d farther, at most %d steps\n",
              cells, equal, adjacent, 100.0 * (equal + adjacent) / cells, farther, worst);
  if (!exceptions.empty()) std::printf("Not even adjacent:\n%s", exceptions.c_str());
  return 5 * (equal + adjacent) >= 4 * cells && worst <= 2 ? 0 : 1;
}
