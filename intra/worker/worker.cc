#include "intra/worker/worker.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "intra/base/error.h"
#include "intra/base/memory_peak.h"
#include "intra/base/stopwatch.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/run_settings.h"
#include "intra/outer/state_file.h"
#include "intra/worker/round_driver.h"
#include "intra/worker/worker_result.h"

namespace causeway {
namespace {

std::vector<diloco::TensorSpec> specs(const std::vector<Tensor>& tensors) {
  std::vector<diloco::TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const Tensor& tensor : tensors) specs.push_back({tensor.name, tensor.shape});
  return specs;
}

intra::RoundDriver::Region region_of(const WorkerSettings& settings) {
  return {.name = settings.region,
          .directory = settings.directory,
          .coordinator = settings.coordinator,
          .certificates = settings.certificates,
          .save_rounds = settings.save_rounds};
}

}  // namespace

class Worker::Implementation final : private intra::RoundTrainer {
 public:
  Implementation(WorkerSettings settings, std::span<const float> initial)
      : settings_(std::move(settings)),
        layout_(specs(settings_.tensors)),
        state_(layout_),
        spans_(layout_, state_),
        initial_(std::vector(initial.begin(), initial.end())),
        driver_(region_of(settings_), state_, *this) {
    if (!load_outer_state(settings_.directory, layout_, state_)) start_afresh();
    follow([] {});
  }

  std::optional<Steps> next(std::span<float> params) {
    std::optional<intra::Stint> stint;
    if (!over_) {
      follow([&] {
        stint = driver_.next();
        if (!stint) end();
      });
    }
    // Where there are steps ahead, the parameters are not what the regions agreed on.
    write(stint ? state_.params : state_.anchor, params);
    if (!stint) return std::nullopt;
    cut_off_ = stint->cut_off;
    enter("compute");
    return steps(*stint);
  }

  bool called_back() { return driver_.called_back(); }

  void done(std::span<const float> params, std::uint32_t count, double loss) {
    state_.work.compute_s += stopwatch_.charge(progress_.compute_s);
    state_.work.steps += count;
    steps_ += count;
    steps_here_ += count;
    progress_.loss = loss;
    read(params);
    // Elsewhere the driver looks itself, and names the tensor.
    driver_.done(!cut_off_ || all_finite(params));
  }

 private:
  // Attached; attaches as often as it takes.
  template <typename Work>
  void follow(const Work& work) {
    for (;;) {
      try {
        if (!gathering_) gather();
        return work();
      } catch (const std::system_error& error) {
        if (over_) return;
        if (error.code() == intra::Errc::interrupted)
          throw std::system_error(std::make_error_code(std::errc::operation_canceled),
                                  error.what());
        driver_.recover(error);
        gathering_.reset();
      }
    }
  }

  void gather() {
    const auto alone = [](const diloco::Attachment&) { return intra::make_solo_collective(); };
    gathering_ = std::make_unique<intra::Gathering>(
        driver_.request(), diloco::WorkerSession::attach, alone,
        [this] { return cancelled_ || over_; },
        [this](const std::string& what) {
          over_ = has_result();
          if (!over_) ask_whether_to_wait(what);
        });
    driver_.join(*gathering_,
                 make_round(intra::parse_run_settings(gathering_->attachment().settings)));
    diloco::reached(diloco::ProtocolState::attached);
  }

  intra::OuterRound make_round(const intra::RunSettings& run) const {
    const auto place = std::find(run.regions.begin(), run.regions.end(), settings_.region);
    const auto index = static_cast<std::uint32_t>(place - run.regions.begin());
    return {{.region = settings_.region, .region_index = index, .seed = run.seed},
            run.codec,
            run.outer,
            run.overlap,
            layout_};
  }

  void ask_whether_to_wait(const std::string& what) {
    if (settings_.keep_waiting && !settings_.keep_waiting(what)) cancelled_ = true;
  }

  Steps steps(const intra::Stint& stint) const {
    return {
        .round = state_.version,
        .count = stint.count,
        .first_sample = state_.work.data_cursor + state_.work.steps * settings_.samples_per_step,
        .schedule_step = stint.schedule_step + state_.step_in_round(),
        .part = stint.share.index,
        .parts = std::max<std::uint32_t>(1, stint.share.count),
        .pass = stint.share.pass,
        .pass_begin = stint.share.begin};
  }

  // Left by an earlier life. A coordinator that is not there may have ended as well.
  bool has_result() const {
    const auto result = intra::read_result(settings_.directory);
    return result && result->rounds == state_.version && state_.version > 0;
  }

  void end() {
    driver_.checkpoint(intra::RoundDriver::Refusal::throws);
    intra::write_result(settings_.directory, result());
    enter(diloco::kPhaseDone);
    over_ = true;
  }

  intra::WorkerResult result() {
    // Killed after its last steps: the state on disk knows of them.
    count_up_to(state_.work.data_cursor / settings_.samples_per_step);
    report();
    return {.steps = steps_,
            .tokens = progress_.tokens,
            .rounds = state_.version,
            .compute_s = progress_.compute_s,
            .wait_s = progress_.wait_s,
            .outer_s = progress_.outer_s,
            .memory_peak_bytes = progress_.memory_peak_bytes,
            .tokens_per_s = progress_.tokens_per_s,
            .params_digest = diloco::to_hex(driver_.round().ownership().root(
                gathering_->group(), spans_, intra::Flat::anchor))};
  }

  // ---- Of a RoundTrainer ----

  intra::OuterSpans& spans() override { return spans_; }
  intra::OuterRound::Batch batch() const override {
    return {settings_.samples_per_step, settings_.tokens_per_step};
  }

  // Time counts from when there is something to do.
  void enter(const std::string& phase) override {
    if (phase != "wait") stopwatch_.start();
    charge_wait();
    progress_.phase = phase;
    report();
  }
  void waiting(const std::string& what) override {
    report();
    ask_whether_to_wait(what);
  }
  void count_up_to(std::uint64_t steps) override { steps_ = std::max(steps_, steps); }

  void sat_out(const std::string& tensor, std::uint32_t steps) override {
    spdlog::error(
        "round {}: {} became NaN or infinite. This region sits the round out, drops its {} inner "
        "steps and follows the other regions",
        state_.version, tensor, steps);
  }

  void start_afresh() override {
    if (!initial_) {
      throw std::system_error(
          diloco::Errc::divergence,
          "this worker's state is not the one that the run agreed on, and there is no "
          "snapshot yet; start it again in an empty directory");
    }
    const std::string run_id = state_.run_id;
    state_ = intra::OuterState(layout_);
    read(*initial_);
    state_.anchor = state_.params;
    state_.digest = whole_digest(state_);
    state_.run_id = run_id;
  }

  void checkpointed() override { initial_.reset(); }
  void write_state() override { save_outer_state(settings_.directory, layout_, state_, {}, {}); }

  void stop() override {
    driver_.save(intra::RoundDriver::Refusal::throws);
    throw std::system_error(intra::Errc::interrupted,
                            "told to stop; state saved in " +
                                intra::checkpoint_directory(settings_.directory).string());
  }

  // ---- What it shows ----

  void charge_wait() {
    const double seconds = stopwatch_.charge(progress_.wait_s);
    if (progress_.phase == "encode" || progress_.phase == "apply") progress_.outer_s += seconds;
  }

  void report() {
    charge_wait();
    const auto here = static_cast<double>(steps_here_ * settings_.tokens_per_step);
    progress_.tokens = steps_ * settings_.tokens_per_step;
    progress_.tokens_per_s = progress_.compute_s > 0 ? here / progress_.compute_s : 0;
    progress_.memory_peak_bytes = intra::memory_peak_bytes();
    driver_.report(progress_);
  }

  // ---- Parameters: the trainer's, one tensor after the other, and the flat layout with gaps ----

  template <typename Copy>
  void each_tensor(std::size_t given, Copy&& copy) const {
    if (given != layout_.parameter_count()) {
      throw std::invalid_argument("the parameters have " + std::to_string(given) +
                                  " elements where the tensors have " +
                                  std::to_string(layout_.parameter_count()));
    }
    std::size_t at = 0;
    for (const Tensor& tensor : settings_.tensors) {
      const diloco::PlacedTensor& placed = layout_.find(tensor.name);
      copy(at, placed.offset, placed.spec.count());
      at += placed.spec.count();
    }
  }
  void read(std::span<const float> params) {
    each_tensor(params.size(), [&](std::size_t at, std::size_t offset, std::size_t count) {
      std::copy_n(params.data() + at, count, state_.params.data() + offset);
    });
  }
  void write(const std::vector<float>& flat, std::span<float> params) const {
    each_tensor(params.size(), [&](std::size_t at, std::size_t offset, std::size_t count) {
      std::copy_n(flat.data() + offset, count, params.data() + at);
    });
  }
  static bool all_finite(std::span<const float> params) {
    return std::ranges::all_of(params, [](float value) { return std::isfinite(value); });
  }

  WorkerSettings settings_;
  diloco::Layout layout_;
  intra::OuterState state_;
  intra::HostSpans spans_;
  std::optional<std::vector<float>> initial_;  // until there is a snapshot
  intra::RoundDriver driver_;
  std::unique_ptr<intra::Gathering> gathering_;
  bool cancelled_ = false;                    // by keep_waiting
  bool cut_off_ = false;                      // the steps under way are a Continue's
  bool over_ = false;                         // the run, and its result is written
  std::uint64_t steps_ = 0, steps_here_ = 0;  // of the region; of this process
  diloco::Progress progress_;
  intra::Stopwatch stopwatch_;
};

Worker::Worker(WorkerSettings settings, std::span<const float> initial)
    : implementation_(std::make_unique<Implementation>(std::move(settings), initial)) {}

Worker::~Worker() = default;

std::optional<Steps> Worker::next(std::span<float> params) {
  return implementation_->next(params);
}

bool Worker::called_back() {
  return implementation_->called_back();
}

void Worker::done(std::span<const float> params, std::uint32_t count, double loss) {
  implementation_->done(params, count, loss);
}

}  // namespace causeway
