// The worker API: how any training loop takes part in a run. Installed as <causeway/worker.h>;
// docs/worker-api.md has the story and examples/classifier/ a whole program.
//
//   causeway::Worker worker(settings, params);            // attaches to the region's coordinator
//   while (auto steps = worker.next(params)) {            // params: from where to take them
//     for (i = 0; i < steps->count && !worker.called_back(); ++i) ...one inner step on params...
//     worker.done(params, i, loss);                       // what they led to
//   }                                                     // params: the run's result
//
// `params` is one span of fp32, or a list of tensors that lie wherever the program has them. Both
// are copied straight from and to the worker's own buffers, and lead to the same bits.
//
// One process speaks for its region; how it spreads a step over devices or hosts is its own
// business. One thread at a time. A process that is forked from it may not call the worker, only
// destroy its copy, which does nothing.
//
// Errors are std::system_error unless said otherwise. A coordinator that goes away is none, however
// often: the worker waits for it and goes on.
// Thrown are: what the coordinator refuses (another run, another shape of region, a model that its
// spool has no room for), a state on disk that is damaged or of another model, records that were
// made for other numbers than these (divergence), and a full disk. The message says what to do;
// after it, the worker must be made anew.
//
// A wrong call is a std::invalid_argument (parameters that do not fit the tensors, a null pointer)
// or a std::logic_error (calls in an order that makes no sense). It changes nothing: the worker
// goes on with a right one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace causeway {

// One tensor of the parameters. Matrices (two or more dimensions) and vectors may be compressed
// differently.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

// Where a program has one tensor of its parameters, in fp32. Element (i, j, ...) is
// data[i * strides[0] + j * strides[1] + ...]. Only next() writes there.
struct ParameterView {
  float* data = nullptr;
  std::vector<std::int64_t> shape;  // as in its Tensor
  // In elements, of each dimension, negative ones too. Empty: no gaps, the last index runs fastest.
  std::vector<std::int64_t> strides = {};
};

struct WorkerSettings {
  std::string region;
  // The region's own directory: checkpoints/ is kept in it. On the coordinator's host the directory
  // that the coordinator uses, which has its socket.
  std::filesystem::path directory;
  // HOST:PORT where a coordinator on another host listens for workers (--worker-listen), and a
  // directory made by `causeway certs` with ca.crt, REGION.crt and REGION.key. Empty: this host.
  std::string coordinator = {};
  std::filesystem::path certificates = {};
  // In the order in which they lie in the parameters, one after the other. The same in every
  // region.
  std::vector<Tensor> tensors;
  // What one inner step of the region reads: samples move its cursor, tokens are its weight. 0
  // tokens: a sample is one.
  std::uint64_t samples_per_step = 1, tokens_per_step = 0;
  // Rounds, of every fragment, between states on disk, and snapshots for joiners.
  std::uint32_t save_rounds = 10;
  // The program evaluates the parameters when a run wants that (Steps::validation_samples). False:
  // it is never asked.
  bool validates = false;
  // Called at least every second while the worker waits, with what it waits for. False: stop, with
  // std::errc::operation_canceled, the state saved. None: wait for ever.
  std::function<bool(const std::string& what)> keep_waiting = {};
};

// Inner steps to take.
struct Steps {
  std::uint64_t round = 0;
  std::uint32_t count = 0;
  std::uint64_t first_sample = 0;   // the region's sample number of the first step
  std::uint64_t schedule_step = 0;  // position of the first in the schedule that all regions share
  // What to read: part `part` of `parts` equal ones of the data, in pass number `pass` over it (its
  // order may depend on that), where the region's sample number `pass_begin` is the first. They
  // change when a region joins the run for good or leaves it.
  std::uint32_t part = 0, parts = 1;
  std::uint64_t pass = 0, pass_begin = 0;
  // Not 0: there are no steps to take now (count is 0). The parameters are what all regions agreed
  // on: evaluate them on this many samples, which nobody trains on and which are the same in every
  // round, call validated(), and then next().
  std::uint64_t validation_samples = 0;
  // Of the whole run, nominal: where the schedule ends.
  std::uint64_t run_steps = 0;
};

class Worker {
 public:
  // Attaches, or waits until it can. `initial`: the parameters that a new run begins with, the same
  // in every region; not used if the region has a state on disk or joins a run that is under way.
  Worker(WorkerSettings settings, std::span<const float> initial);
  Worker(WorkerSettings settings, std::span<const ParameterView> initial);
  ~Worker();

  // Waits until there are steps to take: applies what the regions decided meanwhile, and writes the
  // parameters to start from to `params`. Nothing: the run is over, and `params` are its result.
  std::optional<Steps> next(std::span<float> params);
  std::optional<Steps> next(std::span<const ParameterView> params);

  // Whether to stop early: the region was cut off from the others, trained on by itself, and can
  // reach them again. Cheap; call it between steps.
  bool called_back();

  // The steps are taken, or `count` of them if called back. `loss`: of the last one, for displays.
  // Of 0 steps, without being called back, nothing is contributed, and they are ordered again: a
  // program that has nothing to train on any more ends instead.
  // If parameters are not finite, the region sits the round out: nothing is sent, and its
  // parameters follow the other regions.
  void done(std::span<const float> params, std::uint32_t count, double loss);
  void done(std::span<const ParameterView> params, std::uint32_t count, double loss);

  // Gives the mean loss that Steps::validation_samples asked for, in the units of done()'s loss.
  // The run judges its choice of K by it. A loss that is not finite counts as none.
  void validated(double loss);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway
