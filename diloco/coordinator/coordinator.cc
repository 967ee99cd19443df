#include "diloco/coordinator/coordinator.h"

#include <chrono>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/coordinator/abstention.h"
#include "diloco/coordinator/archive_fill.h"
#include "diloco/coordinator/coordinator_context.h"
#include "diloco/coordinator/greeting.h"
#include "diloco/coordinator/operator_door.h"
#include "diloco/coordinator/peer_links.h"
#include "diloco/coordinator/shard_summer.h"
#include "diloco/coordinator/status_view.h"
#include "diloco/coordinator/worker_side.h"
#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/follow/follower_server.h"
#include "inter/base/retry.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPulse{250};

const RunOutcome kInterrupted{130, "interrupted"};
const RunOutcome kWithoutResult{
    75,
    "the run is over, and this region holds all of it, but its worker has not written its result: "
    "start the coordinator and the worker again"};

}  // namespace

Membership configured_membership(const CoordinatorOptions& options) {
  Membership membership;
  for (const Member& member : options.members) membership = with(membership, member);
  return membership;
}

// Opens and closes the parts, and passes the protocol's actions to the part that carries them out.
// One thread.
class Coordinator::Implementation {
 public:
  // `again`: in place of one whose storage failed and works again.
  Implementation(asio::any_io_executor executor, CoordinatorOptions options, bool again = false)
      : executor_(executor),
        options_(std::move(options)),
        again_(again),
        ending_(executor),
        directory_(options_),
        tasks_(executor) {}

  // Nothing: the storage failed and works again; another one of these is to begin anew.
  asio::awaitable<std::optional<RunOutcome>> run();
  void stop() {
    stopped_ = true;
    ending_.finish(kInterrupted);
    if (worker_) worker_->farewell().cut_short();
  }
  std::uint16_t listening_port() const { return links_ ? links_->listening_port() : 0; }
  const CoordinatorOptions& options() const { return options_; }
  bool has_opened() const { return opened_ || again_; }  // or one before it
  // Of its storage, after run(); empty: it opened.
  std::string failure_to_open() const { return opened_ ? "" : ending_.storage_failure(); }

 private:
  void open();
  asio::awaitable<void> close();
  void write_last_status();
  asio::awaitable<void> pulse();
  asio::awaitable<void> abstain();
  CoordinatorContext context();
  void lose(const inter::BlobId& blob);

  void carry_out(const Action& action);
  void carry_out(const RemoveBlob& action);
  void carry_out(const SaveRaft& action);
  void carry_out(const AppendLedger& action);
  void carry_out(const SaveSnapshot& action);
  void carry_out(const EndRun& action);
  void carry_out(const Note& action);

  asio::any_io_executor executor_;
  CoordinatorOptions options_;
  bool again_;
  bool opened_ = false;
  steady_clock::time_point opened_at_;
  CoordinatorEnd ending_;
  RegionDirectory directory_;
  std::optional<ProtocolDriver> driver_;
  std::optional<PeerLinks> links_;
  std::optional<WorkerSide> worker_;
  std::optional<StatusView> view_;
  std::optional<ShardSummer> shards_;
  std::optional<OperatorDoor> operator_door_;  // the last to be opened
  std::optional<FollowerServer> followers_;
  std::optional<ArchiveFill> archive_fill_;  // where everything is kept
  bool stopped_ = false;
  bool without_result_ = false;  // of its worker, the run is over
  inter::LogBudget notes_{30};   // lines a minute of one kind
  inter::TaskGroup tasks_;
};

// ---- Life ----

asio::awaitable<std::optional<RunOutcome>> Coordinator::Implementation::run() {
  try {
    if (std::optional<RunOutcome> refusal = directory_.open()) co_return *refusal;
    open();
    opened_ = true;
    opened_at_ = steady_clock::now();
    tasks_.spawn(pulse());
    driver_->handle(Tick{});
    while (ending_.going_on()) co_await ending_.change();
    if (!ending_.outcome() && !ending_.failure() && !ending_.begins_again()) co_await abstain();
  } catch (...) {  // a port in use, for one: what is open already must not keep the program alive
    const auto failure = std::current_exception();
    again_ && !opened_ ? ending_.fail(failure) : ending_.fail_for_good(failure);
  }
  if (!opened_ && !ending_.failure()) {  // it works for less than all that is to be opened
    asio::steady_timer timer(executor_, kLookAtDisk);
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_await close();
  if (ending_.failure()) std::rethrow_exception(ending_.failure());
  if (without_result_) co_return stopped_ ? kInterrupted : kWithoutResult;
  co_return ending_.outcome();
}

void Coordinator::Implementation::open() {
  followers_.emplace(FollowerServerOptions{.owner = options_.region,
                                           .directory = options_.directory,
                                           .credentials = options_.mesh.credentials,
                                           .settings = options_.shared_config,
                                           .bytes_per_s = options_.follower_bytes_per_s,
                                           .weights = options_.follower_weights});
  driver_.emplace(executor_, ending_, directory_.spool(), directory_.protocol_options(),
                  directory_.state(), [this](const Action& action) { carry_out(action); });
  directory_.refuse_if_anothers(driver_->protocol().membership());
  links_.emplace(context());
  worker_.emplace(context());
  view_.emplace(context(), *links_, *worker_);
  links_->start();
  if (!options_.kept_config.empty()) {
    archive_fill_.emplace(options_.directory, directory_.ledger(), directory_.spool(),
                          [this](const std::string& peer, const inter::BlobId& blob) {
                            links_->carry_out(FetchBlob{peer, blob});
                          });
  }
  shards_.emplace(context());
  worker_->open();
  operator_door_.emplace(executor_, options_.directory, [this](const ChangeMember& change) {
    driver_->handle(OperatorAsked{change});
  });
  operator_door_->start();
  const std::string& run_id = directory_.ledger().run_id();
  const std::uint16_t port = listening_port();
  spdlog::info("{}: run {}, round {}, {}", options_.region,
               run_id.empty() ? "not known yet" : run_id, driver_->protocol().version(),
               port == 0 ? "dials the others" : fmt::format("listening on port {}", port));
}

CoordinatorContext Coordinator::Implementation::context() {
  return {
      .executor = executor_,
      .options = options_,
      .ending = ending_,
      .directory = directory_,
      .driver = *driver_,
      .status = [this] { return view_->status(); },
      .lose = [this](const inter::BlobId& id) { lose(id); },
      .on_follower = [this](inter::TlsDoor::Guest guest) { followers_->admit(std::move(guest)); }};
}

asio::awaitable<void> Coordinator::Implementation::close() {
  ending_.close();
  if (driver_) driver_->stop_clock();
  if (worker_ && ending_.outcome()) worker_->farewell().refuse(*ending_.outcome());
  if (links_) co_await links_->stop();
  if (operator_door_) co_await operator_door_->stop();
  if (worker_ && ending_.outcome()) co_await worker_->farewell().await_return_of_refused();
  if (worker_ && ending_.succeeded()) {
    followers_->tell();
    without_result_ = !co_await worker_->farewell().say_goodbye([this](const std::string& waiting) {
      view_->set_goodbye(waiting);
      write_last_status();
    });
  }
  if (worker_) co_await worker_->stop();
  if (shards_) co_await shards_->join();
  if (followers_ && ending_.succeeded()) co_await followers_->see_off(executor_);
  followers_.reset();
  co_await tasks_.join();
  if (operator_door_) write_last_status();
  directory_.close();
}

void Coordinator::Implementation::write_last_status() {
  try {
    directory_.files().write(view_->status());
  } catch (const std::system_error& error) {
    if (!is_storage_failure(error)) throw;
  }
}

// What nobody tells: how far transfers are, and what the display and the worker should know.
asio::awaitable<void> Coordinator::Implementation::pulse() {
  asio::steady_timer timer(executor_);
  while (ending_.going_on()) {
    ending_.guard([this] {
      driver_->report_progress();
      worker_->intake().look_for_room();
      worker_->look_for_silence(steady_clock::now());
      view_->look_at_certificates(steady_clock::now());
      if (archive_fill_)
        archive_fill_->look(view_->applied_version(), links_->up(), steady_clock::now());
      const std::string what = view_->waiting_for();
      worker_->tell_what_is_waited_for(what);
      view_->note_wait(what);
      directory_.files().write(view_->status());
    });
    timer.expires_after(kPulse);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

void Coordinator::Implementation::lose(const inter::BlobId& blob) {
  ending_.guard([&] {
    directory_.files().add_event("damaged", {}, "spool/" + inter::to_string(blob),
                                 driver_->protocol().version());
  });
  driver_->handle(BlobLost{blob});
}

// Once it is over, a further Implementation begins anew.
asio::awaitable<void> Coordinator::Implementation::abstain() {
  Abstention abstention(context(), *links_, *worker_,
                        Abstention::pace_after(steady_clock::now() - opened_at_));
  view_->set_abstention(abstention.why());
  co_await abstention.wait_out();
}

// ---- Actions ----

// Who carries out what.
void Coordinator::Implementation::carry_out(const Action& action) {
  std::visit(
      Cases{
          [this](
              const OneOf<SendMessage, PushBlob, FetchBlob, ForgoBlob, UpdateMembers> auto& one) {
            links_->carry_out(one);
          },
          [this](const OneOf<WelcomeWorker, OrderTrain, OrderContinue, OrderCallBack, OrderCollect,
                             OrderApply, OrderRestore, OrderFinish, CheckSnapshot> auto& one) {
            worker_->carry_out(one);
          },
          [this](const SumShard& one) { shards_->carry_out(one); },
          [this](const SaveContributions& one) { directory_.carry_out(one); },
          [this](const OneOf<SaveSnapshot, RemoveBlob, SaveRaft, AppendLedger, EndRun, Note> auto&
                     one) {
            carry_out(one);  // here: no part does it alone
          }},
      action);
}

void Coordinator::Implementation::carry_out(const RemoveBlob& action) {
  if (!archive_fill_ || !archive_fill_->awaits(action.blob)) directory_.carry_out(action);
}

void Coordinator::Implementation::carry_out(const SaveRaft& action) {
  directory_.save(action, driver_->protocol().raft().leads());
}

void Coordinator::Implementation::carry_out(const AppendLedger& action) {
  directory_.append(action, driver_->protocol().contribution());
  if (worker_) worker_->on_log();
  if (followers_) followers_->tell();
}

void Coordinator::Implementation::carry_out(const SaveSnapshot& action) {
  directory_.carry_out(action);
  if (followers_) followers_->tell();
}

void Coordinator::Implementation::carry_out(const EndRun& action) {
  reached(ProtocolState::run_ended);
  ending_.finish({action.exit_code, action.message});
}

void Coordinator::Implementation::carry_out(const Note& action) {
  const auto level = action.severity == Note::Severity::error     ? spdlog::level::err
                     : action.severity == Note::Severity::warning ? spdlog::level::warn
                                                                  : spdlog::level::info;
  // Some say what another region did, which may do it without end.
  const auto more = notes_.take(inter::LogBudget::kind_of(action.text));
  if (!more) return;
  spdlog::log(level, "{}: {}{}", options_.region, action.text, *more);
  const bool error = action.severity == Note::Severity::error;
  if (error) view_->set_last_error(action.text);
  const std::string event = action.event.empty() && error ? "error" : action.event;
  if (!event.empty())
    directory_.files().add_event(event, {}, action.text, driver_->protocol().version());
}

// ---- The public face ----

// It keeps its name when it begins anew.
Coordinator::Coordinator(asio::any_io_executor executor, CoordinatorOptions options)
    : executor_(executor) {
  if (options.process.empty()) options.process = process_name();
  implementation_ = std::make_unique<Implementation>(executor, std::move(options));
}
Coordinator::~Coordinator() = default;
asio::awaitable<RunOutcome> Coordinator::run() {
  bool said = false;
  for (;;) {
    if (std::optional<RunOutcome> outcome = co_await implementation_->run()) co_return *outcome;
    const std::string failure = implementation_->failure_to_open();
    if (!failure.empty() && !said)
      spdlog::error("{}: its storage fails again as it opens ({}): it tries again every {} s",
                    implementation_->options().region, failure, kLookAtDisk.count());
    said = !failure.empty();
    // What it knew may be ahead of what is on disk.
    CoordinatorOptions options = implementation_->options();
    if (options.start != Start::join) options.start = Start::resume;
    implementation_ = std::make_unique<Implementation>(executor_, std::move(options), true);
  }
}
bool Coordinator::has_opened() const {
  return implementation_->has_opened();
}
void Coordinator::stop() {
  implementation_->stop();
}
std::uint16_t Coordinator::listening_port() const {
  return implementation_->listening_port();
}

}  // namespace causeway::diloco
