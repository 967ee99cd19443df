#include "intra/worker/worker.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/worker/coordinator_link.h"
#include "intra/base/error.h"
#include "intra/base/resources.h"
#include "intra/base/strided_tensor.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/run_settings.h"
#include "intra/outer/state_file.h"
#include "intra/worker/rank_claim.h"
#include "intra/worker/refused_orders.h"
#include "intra/worker/round_driver.h"
#include "intra/worker/time_keeper.h"
#include "intra/worker/worker_arguments.h"
#include "intra/worker/worker_result.h"

namespace causeway {

class Worker::Implementation final : private intra::RoundTrainer {
 public:
  // `initial` makes tensors of the layout.
  template <typename MakeTensors>
  Implementation(WorkerSettings settings, const MakeTensors& initial)
      : settings_(worker_arguments::checked(std::move(settings))),
        layout_(worker_arguments::specs(settings_.tensors)),
        state_(layout_),
        spans_(layout_, state_),
        initial_(gathered(initial(layout_))),
        driver_(worker_arguments::region_of(settings_), state_, *this) {
    // A directory that is not there may be mistyped, and is not made before somebody answers.
    if (std::filesystem::exists(settings_.directory)) claim();
    state_.region = settings_.region;
    if (!load_outer_state(settings_.directory, layout_, state_)) start_afresh();
    follow([] {});
    if (!claim_) claim();
  }

  const diloco::Layout& layout() const { return layout_; }

  // A process that is forked has the same connection, and none of the threads.
  bool is_here() const { return ::getpid() == process_; }

  std::optional<Steps> next(const intra::StridedTensors& params) {
    check_process();
    check_tensors(layout_, params);
    check_apart(layout_, params);
    if (under_way_) throw std::logic_error("next() needs done() first, for the steps under way");
    if (!over_ && !stint_) receive();
    validating_ = !over_ && validation_due_ && settings_.validates && run_.validation_samples > 0;
    validation_due_ = false;
    // Where there are steps ahead, the parameters are not what the regions agreed on.
    write_tensors(layout_, over_ || validating_ ? state_.anchor : state_.params, params);
    if (over_) return std::nullopt;
    enter(validating_ ? "evaluate" : "compute");
    if (validating_)
      return Steps{.round = state_.version,
                   .validation_samples = run_.validation_samples,
                   .run_steps = run_.steps};
    under_way_ = std::exchange(stint_, std::nullopt);
    return steps(*under_way_);
  }

  bool called_back() {
    check_process();
    const bool called = driver_.called_back();
    if (called) refused_.call_back();
    return called;
  }

  void done(const intra::StridedTensors& params, std::uint32_t count, double loss) {
    check_process();
    check_tensors(layout_, params);
    check_count(count);
    if (!under_way_) return;  // an evaluation
    const bool cut_off = std::exchange(under_way_, std::nullopt)->cut_off;
    refused_.add(state_.version, count);
    state_.work.compute_s += time_.charge_steps();
    state_.work.steps += count;
    steps_ += count;
    steps_here_ += count;
    note_loss(count, loss);
    driver_.await_saved_spans();
    read_tensors(layout_, params, state_.params);
    // Elsewhere the driver looks itself, and names the tensor.
    driver_.done(!cut_off || all_finite(state_.params));
  }

  void validated(double loss) {
    check_process();
    if (!validating_)
      throw std::logic_error("validated() needs next() to ask for it first, each time");
    validating_ = false;
    if (std::isfinite(loss)) state_.held_out_loss = loss;
    progress_.set_val_loss(loss);
    progress_.set_val_version(state_.version);
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
        if (!driver_.recover(error)) throw;
        gathering_.reset();
      }
    }
  }

  void gather() {
    const auto alone = [](const diloco::Attachment&, const std::function<bool()>&) {
      return intra::make_solo_collective();
    };
    gathering_ = std::make_unique<intra::Gathering>(
        request(), diloco::WorkerSession::attach, alone, [this] { return cancelled_ || over_; },
        [this, silence = intra::Silence()](const std::string& what) mutable {
          if (silence.is_long(what)) end_by_result_left();
          if (!over_) ask_whether_to_wait(what);
        });
    run_ = intra::parse_run_settings(gathering_->attachment().settings);
    if (!run_.codec.feedback) state_.residual = {};
    driver_.join(*gathering_, make_round());
    if (gathering_->attachment().offers_initial && state_.version == 0) driver_.offer_initial();
    diloco::reached(diloco::ProtocolState::attached);
  }

  void claim() {
    claim_ = intra::claim_rank(settings_.directory, 0, [this](const std::string& what) {
      diloco::keep_waiting_or_throw(settings_.keep_waiting, what);
    });
  }

  diloco::AttachRequest request() const {
    diloco::AttachRequest request = driver_.request();
    request.tensors = worker_arguments::named_tensors(layout_, state_);
    request.save_rounds = settings_.save_rounds;
    return request;
  }

  intra::OuterRound make_round() const {
    const auto place = std::find(run_.regions.begin(), run_.regions.end(), settings_.region);
    const auto index = static_cast<std::uint32_t>(place - run_.regions.begin());
    return {{.region = settings_.region, .region_index = index, .seed = run_.seed},
            run_.codec,
            run_.outer,
            run_.overlap,
            layout_};
  }

  void ask_whether_to_wait(const std::string& what) {
    if (settings_.keep_waiting && !settings_.keep_waiting(what)) cancelled_ = true;
  }

  // NaN may be the loss of steps, or say that none is known.
  void note_loss(std::uint32_t count, double loss) {
    const bool is_known = !std::isnan(loss) || progress_.has_loss();
    if (count > 0 && is_known) progress_.set_loss(loss);
  }

  // That takes no steps: the same would be ordered again at once.
  void await_program() {
    const auto pause = refused_.pause();
    if (!pause) return;
    ask_whether_to_wait("the program, which takes no steps");
    if (cancelled_) return;  // the next wait ends with that
    if (!std::exchange(said_refused_, true)) {
      spdlog::warn(
          "the program was given steps {} times and took none: {} contributes nothing, and the "
          "other regions wait for it in each round. End the program, or let it take steps",
          refused_.in_a_row(), settings_.region);
    }
    ::poll(nullptr, 0, static_cast<int>(pause->count()));
  }

  // Steps to take, or that there are no more.
  void receive() {
    await_program();
    follow([&] {
      stint_ = driver_.next();
      if (!stint_) end();
    });
    over_ = !stint_;
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
        .pass_begin = stint.share.begin,
        .run_steps = run_.steps};
  }

  // Left by an earlier life. A coordinator that is not there may have ended as well.
  bool has_result() const {
    const auto result = intra::read_result(settings_.directory);
    return result && result->ends(state_.run_id, state_.version);
  }

  // The coordinator alone knows how long the run is: it may have been made longer.
  void end_by_result_left() {
    over_ = has_result();
    if (!over_) return;
    spdlog::info(
        "no coordinator answers, and {} has the result of this state: the run is over. If the run "
        "was made longer since, start the coordinator of {} and then this program again",
        (settings_.directory / "result.json").string(), settings_.region);
  }

  void end() {
    driver_.checkpoint(intra::Refusal::throws);
    intra::write_result(settings_.directory, result());
    enter(diloco::kPhaseDone);
    over_ = true;
  }

  intra::WorkerResult result() {
    // Killed after its last steps: the state on disk knows of them.
    count_up_to(state_.work.data_cursor / settings_.samples_per_step);
    report();
    intra::WorkerResult result{.progress = progress_,
                               .run_id = state_.run_id,
                               .params_digest = diloco::to_hex(driver_.round().ownership().root(
                                   gathering_->group(), spans_, intra::Flat::anchor))};
    result.progress.set_step(steps_);
    result.progress.set_round(state_.version);
    result.progress.clear_val_loss();  // the program's own measure
    return result;
  }

  // ---- Of a RoundTrainer ----

  intra::OuterSpans& spans() override { return spans_; }
  intra::OuterRound::Batch batch() const override {
    return {settings_.samples_per_step, settings_.tokens_per_step};
  }

  void enter(const std::string& phase) override {
    time_.enter(phase);
    progress_.set_phase(phase);
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
    { const intra::OuterState left = std::move(state_); }  // there is no room for two
    state_ = intra::OuterState(layout_, {.residual = run_.codec.feedback});
    state_.params = *initial_;
    state_.anchor = state_.params;
    state_.digest = whole_digest(state_);
    state_.run_id = run_id;
    state_.region = settings_.region;
  }

  // For whoever chooses K by it (diloco/pacing/k_policy.h).
  void anchor_moved() override { validation_due_ = state_.version % run_.overlap.fragments == 0; }

  void checkpointed() override { initial_.reset(); }
  intra::StateImage image() override { return image_of(state_, layout_, {}, {}); }
  // They change the program's parameters; done() brings them here.
  void hold_back_steps(const std::function<void()>&) override {}

  void stop() override {
    driver_.save(intra::Refusal::throws);
    throw std::system_error(intra::Errc::interrupted,
                            "told to stop; state saved in " +
                                intra::checkpoint_directory(settings_.directory).string());
  }

  // ---- What it shows ----

  void report() override {
    time_.charge_wait();
    const auto here = static_cast<double>(steps_here_ * settings_.tokens_per_step);
    progress_.set_tokens(steps_ * settings_.tokens_per_step);
    intra::show(spent_, progress_);
    progress_.set_tokens_per_s(spent_.compute_s > 0 ? here / spent_.compute_s : 0);
    progress_.set_memory_peak_bytes(intra::memory_peak_bytes());
    driver_.report(progress_);
  }

  // ---- Parameters ----

  std::vector<float> gathered(const intra::StridedTensors& params) const {
    check_tensors(layout_, params);
    std::vector<float> flat(layout_.size());
    read_tensors(layout_, params, flat);
    return flat;
  }
  static bool all_finite(std::span<const float> params) {
    return std::ranges::all_of(params, [](float value) { return std::isfinite(value); });
  }
  void check_process() const {
    if (is_here()) return;
    throw std::logic_error(
        "this process was forked from the one that made the worker, which alone may call it: fork "
        "before the worker is made, or leave the calls to that process");
  }
  void check_count(std::uint32_t count) const {
    if (!under_way_ && count > 0)
      throw std::logic_error("done() needs next() first: there are no steps under way");
    if (!under_way_ || count <= under_way_->count) return;
    throw std::invalid_argument(fmt::format("done() was told of {} steps where next() asked for {}",
                                            count, under_way_->count));
  }

  const ::pid_t process_ = ::getpid();
  WorkerSettings settings_;
  intra::RankClaim claim_;
  diloco::Layout layout_;
  intra::OuterState state_;
  intra::HostSpans spans_;
  std::optional<std::vector<float>> initial_;  // flat, until there is a snapshot
  intra::RoundDriver driver_;
  std::unique_ptr<intra::Gathering> gathering_;
  intra::RunSettings run_;                 // as of the gathering
  std::optional<intra::Stint> stint_;      // to be handed out
  std::optional<intra::Stint> under_way_;  // that was handed out
  bool validation_due_ = false;            // the anchor is one that was not evaluated yet
  bool validating_ = false;                // the trainer was asked to
  intra::RefusedOrders refused_;
  bool said_refused_ = false;
  bool cancelled_ = false;                    // by keep_waiting
  bool over_ = false;                         // the run, and its result is written
  std::uint64_t steps_ = 0, steps_here_ = 0;  // of the region; of this process
  diloco::Progress progress_;
  intra::TimeSpent spent_;
  intra::TimeKeeper time_{spent_};
};

Worker::Worker(WorkerSettings settings, std::span<const float> initial)
    : implementation_(
          std::make_unique<Implementation>(std::move(settings), [&](const diloco::Layout& layout) {
            return worker_arguments::flat_tensors(layout, initial);
          })) {}

Worker::Worker(WorkerSettings settings, std::span<const ParameterView> initial)
    : implementation_(std::make_unique<Implementation>(
          std::move(settings),
          [&](const diloco::Layout&) { return worker_arguments::listed_tensors(initial); })) {}

// A copy in a forked process is left as it is: it would wait for threads that are not there, and
// end what the first process goes on with.
Worker::~Worker() {
  if (!implementation_->is_here()) static_cast<void>(implementation_.release());
}

std::optional<Steps> Worker::next(std::span<float> params) {
  return implementation_->next(worker_arguments::flat_tensors(implementation_->layout(), params));
}

std::optional<Steps> Worker::next(std::span<const ParameterView> params) {
  return implementation_->next(worker_arguments::listed_tensors(params));
}

bool Worker::called_back() {
  return implementation_->called_back();
}

void Worker::done(std::span<const float> params, std::uint32_t count, double loss) {
  implementation_->done(worker_arguments::flat_tensors(implementation_->layout(), params), count,
                        loss);
}

void Worker::done(std::span<const ParameterView> params, std::uint32_t count, double loss) {
  implementation_->done(worker_arguments::listed_tensors(params), count, loss);
}

void Worker::validated(double loss) {
  implementation_->validated(loss);
}

}  // namespace causeway
