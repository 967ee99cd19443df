// What a proof that a region trained costs it in a round with one leaf at its end (J = K), beside
// an inner step of the same run: the hashes of parameters, moments and residual, and the file of
// the state that the round begins with.
//
//   bench_step_proof CONFIG [--set KEY=VALUE]...       honours OMP_NUM_THREADS; writes to the
//                                                      current directory
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "intra/collective/collective.h"
#include "intra/worker/make_inner_trainer.h"
#include "intra/worker/round_proof.h"

namespace causeway::bench {
namespace {

constexpr int kRepeats = 7;

// The median of several times.
double seconds(const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(times, times.begin() + kRepeats / 2);
  return times[kRepeats / 2];
}

int measure(const run::Config& config) {
  const intra::WorkerOptions options =
      run::worker_options(config, config.regions.front().name, 0, std::filesystem::current_path());
  const diloco::Layout layout(intra::parameter_tensors(options.model));
  intra::TrainingState state(options.inner, layout, intra::kept_by(options));
  intra::initial_weights(options, layout, state.params);
  const auto alone = intra::make_solo_collective();
  const auto trainer = intra::make_inner_trainer(options);
  trainer->join(*alone, state);
  std::uint64_t index = 0;
  const auto batch = static_cast<std::uint64_t>(options.train.batch);
  const double step_s = seconds([&] {
    trainer->step({index, index * batch}, false);
    ++index;
  });
  std::ranges::copy(state.params, state.residual.begin());  // zeros would be hashed at once
  const intra::ProofLeaf first;
  const double leaf_s = seconds([&] { leaf_after(first, 1, batch, state); });
  const double residual_s =
      seconds([&] { diloco::merkle_root(diloco::merkle_leaves(state.residual)); });
  const std::filesystem::path file = "bench-step-proof.state";
  const double write_s = seconds([&] { write_proof_state(file, state); });
  const auto bytes = static_cast<double>(std::filesystem::file_size(file));
  std::filesystem::remove(file);
  trainer->leave();
  const double round_s = leaf_s + residual_s + write_s;
  std::printf("%zu parameters, %s\n", layout.parameter_count(), intra::machine_kind().c_str());
  std::printf("inner step %.1f ms (%lld sequences of %lld tokens)\n", 1e3 * step_s,
              static_cast<long long>(options.train.batch),
              static_cast<long long>(options.model.context));
  std::printf("hashes %.1f ms (%.2f GB/s), file %.1f ms (%.1f MB)\n", 1e3 * (leaf_s + residual_s),
              bytes / (leaf_s + residual_s) / 1e9, 1e3 * write_s, bytes / 1e6);
  std::printf(
      "a round: %.1f ms, %.3f of a step; with K = %u %.3f %% of the steps; below 1 %% from "
      "K = %.0f\n",
      1e3 * round_s, round_s / step_s, options.train.k, 100 * round_s / step_s / options.train.k,
      100 * round_s / step_s);
  return 0;
}

}  // namespace
}  // namespace causeway::bench

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "bench_step_proof CONFIG [--set KEY=VALUE]...\n");
    return 2;
  }
  std::vector<std::string> overrides;
  for (int i = 2; i + 1 < argc; i += 2) overrides.emplace_back(argv[i + 1]);
  return causeway::bench::measure(causeway::run::load_config(argv[1], overrides));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
