#include "diloco/coordinator/coordinator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
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
#include "diloco/coordinator/operator_door.h"
#include "diloco/coordinator/peer_links.h"
#include "diloco/coordinator/region_status.h"
#include "diloco/coordinator/shard_summer.h"
#include "diloco/coordinator/status_files.h"
#include "diloco/coordinator/wait_log.h"
#include "diloco/coordinator/worker_side.h"
#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/follow/follower_server.h"
#include "inter/base/retry.h"
#include "inter/tls/pki.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kPulse{250};
constexpr seconds kLookAtCertificatesEvery{60};

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
    if (worker_) worker_->cut_goodbye_short();
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
  std::string waiting_for() const;
  Round applied_version() const;
  RegionStatus status() const;
  void add_agreement(RegionStatus& status) const;
  void add_worker(RegionStatus& status) const;
  void add_links(RegionStatus& status) const;
  void look_at_certificates();
  std::optional<EgressStatus> egress() const;
  std::map<std::string, double> egress_said() const;

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
  CoordinatorEnd ending_;
  RegionDirectory directory_;
  std::optional<ProtocolDriver> driver_;
  std::optional<PeerLinks> links_;
  std::optional<WorkerSide> worker_;
  std::optional<ShardSummer> shards_;
  std::optional<OperatorDoor> operator_door_;  // the last to be opened
  std::optional<FollowerServer> followers_;
  std::optional<ArchiveFill> archive_fill_;  // where everything is kept
  std::optional<Abstention> abstention_;     // once its storage failed
  WaitLog wait_log_;
  std::optional<double> certificates_until_unix_s_;
  steady_clock::time_point look_at_certificates_at_;  // again
  std::string last_error_;
  std::string goodbye_;  // what is waited for at the end
  bool stopped_ = false;
  bool without_result_ = false;  // of its worker, the run is over
  mutable OwnEgress own_egress_;
  std::map<std::string, double> earlier_egress_said_;
  inter::LogBudget notes_{30};  // lines a minute of one kind
  inter::TaskGroup tasks_;
};

// ---- Life ----

asio::awaitable<std::optional<RunOutcome>> Coordinator::Implementation::run() {
  try {
    if (std::optional<RunOutcome> refusal = directory_.open()) co_return *refusal;
    open();
    opened_ = true;
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
  own_egress_ = OwnEgress(directory_.files().earlier_egress_cost());
  earlier_egress_said_ = directory_.files().earlier_egress_said();
  links_.emplace(context());
  links_->start();
  if (!options_.kept_config.empty()) {
    archive_fill_.emplace(options_.directory, directory_.ledger(), directory_.spool(),
                          [this](const std::string& peer, const inter::BlobId& blob) {
                            links_->carry_out(FetchBlob{peer, blob});
                          });
  }
  worker_.emplace(context());
  shards_.emplace(context());
  worker_->open();
  operator_door_.emplace(executor_, options_.directory, [this](const ChangeMember& change) {
    driver_->handle(OperatorAsked{change});
  });
  operator_door_->start();
  const std::string& run_id = directory_.ledger().run_id();
  spdlog::info("{}: run {}, round {}, listening on port {}", options_.region,
               run_id.empty() ? "not known yet" : run_id, driver_->protocol().version(),
               listening_port());
}

CoordinatorContext Coordinator::Implementation::context() {
  return {
      .executor = executor_,
      .options = options_,
      .ending = ending_,
      .directory = directory_,
      .driver = *driver_,
      .status = [this] { return status(); },
      .lose = [this](const inter::BlobId& id) { lose(id); },
      .on_follower = [this](inter::TlsDoor::Guest guest) { followers_->admit(std::move(guest)); }};
}

asio::awaitable<void> Coordinator::Implementation::close() {
  ending_.close();
  if (driver_) driver_->stop_clock();
  if (worker_ && ending_.outcome()) worker_->refuse(*ending_.outcome());
  if (links_) co_await links_->stop();
  if (operator_door_) co_await operator_door_->stop();
  if (worker_ && ending_.succeeded()) {
    followers_->tell();
    without_result_ = !co_await worker_->say_goodbye([this](const std::string& waiting) {
      goodbye_ = waiting;
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
    directory_.files().write(status());
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
      look_at_certificates();
      if (archive_fill_) archive_fill_->look(applied_version(), links_->up(), steady_clock::now());
      const std::string what = waiting_for();
      worker_->tell_what_is_waited_for(what);
      wait_log_.note(options_.region, what, applied_version(), driver_->protocol().membership());
      directory_.files().write(status());
    });
    timer.expires_after(kPulse);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

// They may be renewed while the run goes on.
void Coordinator::Implementation::look_at_certificates() {
  const steady_clock::time_point now = steady_clock::now();
  if (now < look_at_certificates_at_) return;
  look_at_certificates_at_ = now + kLookAtCertificatesEvery;
  if (const auto until = inter::valid_until_unix_s(options_.mesh.credentials))
    certificates_until_unix_s_ = until;
}

void Coordinator::Implementation::lose(const inter::BlobId& blob) {
  ending_.guard([&] {
    directory_.files().add_event("damaged", {}, "spool/" + inter::to_string(blob),
                                 driver_->protocol().version());
  });
  driver_->handle(BlobLost{blob});
}

std::string Coordinator::Implementation::waiting_for() const {
  if (abstention_) return abstention_->why();
  if (ending_.succeeded()) return goodbye_;
  const std::string for_room = worker_->intake().waiting_for();
  if (!for_room.empty()) return for_room;
  const std::string what = driver_->waiting_for();
  return what.empty() ? what : what + directory_.lacking_room(driver_->protocol().wanted());
}

// Rounds that the worker has applied, as far as this process knows.
Round Coordinator::Implementation::applied_version() const {
  const RoundProtocol& protocol = driver_->protocol();
  return protocol.applied() ? protocol.applied()->version : protocol.version();
}

RegionStatus Coordinator::Implementation::status() const {
  const RoundProtocol& protocol = driver_->protocol();
  RegionStatus status;
  status.region = options_.region;
  status.pid = static_cast<std::uint64_t>(::getpid());
  status.run_id = protocol.run_id();
  status.settings_sha256 = settings_digest(options_.shared_config);
  status.version = applied_version();
  status.round = protocol.version();
  status.listening_port = listening_port();
  status.waiting = waiting_for();
  status.waited_for = wait_log_.longest(applied_version());
  status.share = protocol.share().value_or(DataShare{});
  if (protocol.data()) status.data = data_status(*protocol.data());
  status.steps = options_.protocol.pace.steps;
  status.k = protocol.k();
  status.k_change = protocol.k_change();
  status.egress = egress();
  status.spool_bytes = directory_.spool().stored_bytes();
  status.spool_capacity_bytes = directory_.spool().capacity_bytes();
  status.rounds_kept = protocol.rounds_kept();
  status.falls_behind = applied_version() + protocol.rounds_kept() < protocol.version();
  status.certificates_until_unix_s = certificates_until_unix_s_;
  status.last_error = last_error_;
  status.finished = ending_.succeeded() && goodbye_.empty() && !without_result_;
  add_agreement(status);
  add_worker(status);
  add_links(status);
  return status;
}

// What is out of the run hears nobody: what it knew of the leader then is not true for long.
void Coordinator::Implementation::add_agreement(RegionStatus& status) const {
  const Raft& raft = driver_->protocol().raft();
  status.abstains = abstention_.has_value();
  if (!status.abstains) status.leader = raft.leader().value_or("");
  status.term = raft.term();
}

// A witness has none, and who is finished needs none.
void Coordinator::Implementation::add_worker(RegionStatus& status) const {
  const bool witness = directory_.protocol_options().witness;
  if (!witness) status.workers = options_.workers;
  if (!witness && !status.finished) status.missing_ranks = worker_->missing();
  status.degraded = worker_->is_attached() && !status.missing_ranks.empty();
  status.progress = worker_->progress();
  status.loss_not_finite = status.progress.has_loss() && !std::isfinite(status.progress.loss());
  status.reported_unix_s = worker_->reported_unix_s();
  const std::string silence = ending_.going_on() ? worker_->silence() : "";
  if (silence.empty()) return;
  status.progress.set_tokens_per_s(0);
  if (status.waiting.empty()) status.waiting = silence;
}

void Coordinator::Implementation::add_links(RegionStatus& status) const {
  for (const auto& [peer, link] : links_->stats()) {
    if (link.removed) {
      status.removed_links[peer] = link_totals(link);
    } else {
      status.links[peer] = link_status(link);
    }
  }
}

std::optional<EgressStatus> Coordinator::Implementation::egress() const {
  if (!options_.egress_prices.given) return std::nullopt;
  double now = 0;
  for (const auto& [peer, link] : links_->stats())
    now += options_.egress_prices.of(peer, link.tx_bytes);
  const RoundProtocol& protocol = driver_->protocol();
  const EgressMeter& meter = protocol.egress();
  EgressStatus egress{.cost = own_egress_.total(now, protocol.agreed_egress_cost()),
                      .run_cost = meter.spent(),
                      .said = egress_said(),
                      .run_forecast = meter.at_end(protocol.k()),
                      .pauses = protocol.pauses_for_money()};
  for (const EgressForecast& forecast : meter.forecasts(protocol.k()))
    egress.limits.push_back(egress_limit(forecast));
  return egress;
}

// Of a region that is gone others still know it.
std::map<std::string, double> Coordinator::Implementation::egress_said() const {
  std::map<std::string, double> said = links_->costs();
  const auto note = [&said](const std::string& region, double cost) {
    said[region] = std::max(said[region], cost);
  };
  for (const EgressCost& region : driver_->protocol().agreed_egress())
    note(region.region, region.cost);
  for (const auto& [region, cost] : earlier_egress_said_) note(region, cost);
  return said;
}

// Once it is over, a further Implementation begins anew.
asio::awaitable<void> Coordinator::Implementation::abstain() {
  abstention_.emplace(context(), *links_, *worker_);
  co_await abstention_->wait_out();
}

// ---- Actions ----

// Who carries out what.
void Coordinator::Implementation::carry_out(const Action& action) {
  std::visit(
      Cases{
          [this](const OneOf<SendMessage, PushBlob, FetchBlob, UpdateMembers> auto& one) {
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
  if (error) last_error_ = action.text;
  const std::string event = action.event.empty() && error ? "error" : action.event;
  if (!event.empty())
    directory_.files().add_event(event, {}, action.text, driver_->protocol().version());
}

// ---- The public face ----

Coordinator::Coordinator(asio::any_io_executor executor, CoordinatorOptions options)
    : executor_(executor),
      implementation_(std::make_unique<Implementation>(executor, std::move(options))) {}
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
