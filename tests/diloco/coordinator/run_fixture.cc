#include "tests/diloco/coordinator/run_fixture.h"

#include <poll.h>

#include <chrono>
#include <fstream>
#include <system_error>

#include <asio/co_spawn.hpp>
#include <asio/post.hpp>

#include "diloco/files/error.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Digest initial_state() {
  return sha256(bytes_of("initial"));
}

}  // namespace

// ---- FakeWorker ----

FakeWorker::FakeWorker(std::filesystem::path directory, std::string region, Round held_from)
    : directory_(std::move(directory)),
      region_(std::move(region)),
      held_from_(held_from),
      state_(initial_state()),
      thread_([this] { run(); }) {}

FakeWorker::~FakeWorker() {
  stopping_ = true;
  thread_.join();
}

std::string FakeWorker::state() const {
  const std::lock_guard lock(mutex_);
  return to_hex(state_);
}

std::string FakeWorker::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void FakeWorker::run() {
  while (!stopping_ && !finished_) {
    try {
      const AttachRequest request{.socket = directory_ / "worker.sock",
                                  .region = region_,
                                  .version = version_,
                                  .state = state_,
                                  .has_lineage = !run_id_.empty(),
                                  .run_id = run_id_,
                                  .contributed = contributed_ == version_.load()};
      const auto session =
          WorkerSession::attach(request, [this](const std::string&) { return !stopping_; });
      run_id_ = session->attachment().run_id;
      follow(*session);
    } catch (const std::system_error& error) {
      if (error.code() == Errc::coordinator_lost) continue;
      if (error.code() == std::errc::operation_canceled) return;
      const std::lock_guard lock(mutex_);
      error_ = error.what();
      return;
    }
  }
}

void FakeWorker::follow(WorkerSession& session) {
  while (!stopping_) {
    const Instruction instruction = session.next([this](const std::string&) { return !stopping_; });
    if (const auto* order = std::get_if<Train>(&instruction)) train(session, *order, run_id_);
    if (const auto* order = std::get_if<Apply>(&instruction)) apply(session, *order);
    if (version_ > 0 && version_ == forgets_at_) return begin_again();
    if (const auto* order = std::get_if<Restore>(&instruction)) {
      adopt(session, order->version, order->state);
    }
    if (std::holds_alternative<Finish>(instruction)) {
      finished_ = true;
      progress_.set_phase(kPhaseDone);
      return session.report(progress_);
    }
  }
}

void FakeWorker::begin_again() {
  forgets_at_ = 0;
  version_ = 0;
  contributed_.reset();
  const std::lock_guard lock(mutex_);
  state_ = initial_state();
}

void FakeWorker::train(WorkerSession& session, const Train& order, const std::string& run_id) {
  progress_.set_step(4 * (order.round + 1));
  progress_.set_round(order.round);
  progress_.set_loss(2.0);
  progress_.set_phase("compute");
  session.report(progress_);
  while (order.round >= held_from_ && !stopping_) {
    if (session.lost()) return;  // the next call says so
    ::poll(nullptr, 0, 5);
  }
  const std::string payload = "payload of " + region_ + " in round " + std::to_string(order.round) +
                              std::string(200'000, 'x');
  session.contribute({.run_id = run_id,
                      .region = region_,
                      .round = order.round,
                      .tokens = 100,
                      .data_begin = order.data_cursor,
                      .data_cursor = order.data_cursor + 8,
                      .state = state_,
                      .delta_norm = 1.5,
                      .error_norm = 0.5,
                      .payload = {}},
                     SealedBytes(bytes_of(payload)));
  contributed_ = order.round;
}

namespace {

std::string expected_start(const CommitRecord& record, std::size_t payload) {
  if (!record.sums.empty()) return "sum of";
  return "payload of " + record.participants[payload].region + " in round " +
         std::to_string(record.round);
}

}  // namespace

void FakeWorker::apply(WorkerSession& session, const Apply& order) {
  std::string chained = to_hex(state_);
  for (std::size_t i = 0; i < order.payloads.size(); ++i) {
    const auto bytes = order.payloads[i].bytes();
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with(expected_start(order.record, i)))
      throw std::system_error(std::make_error_code(std::errc::bad_message), "wrong payload");
    chained += to_hex(sha256(bytes));
    if (order.record.sums.empty()) chained += std::to_string(order.record.participants[i].weight);
  }
  adopt(session, order.record.round + 1, sha256(bytes_of(chained)));
}

void FakeWorker::adopt(WorkerSession& session, Round version, const Digest& state) {
  {
    const std::lock_guard lock(mutex_);
    state_ = state;
  }
  version_ = version;
  session.applied(version, state);
  if (version % 2 != 0) return;
  const std::filesystem::path file = directory_ / "snapshot";
  std::ofstream(file, std::ios::binary) << "snapshot " << version << std::string(100'000, 's');
  session.offer_snapshot(version, state, file);
  std::filesystem::remove(file);
}

// ---- TestRun ----

namespace {

// Each begins with what it is a part of.
std::vector<std::vector<std::byte>> cut_in_three(std::span<const std::byte> payload) {
  std::vector<std::vector<std::byte>> shards;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "shard " + std::to_string(i) + " of ";
    const auto head = bytes_of(name);
    shards.emplace_back(head.begin(), head.end());
    const auto part = payload.first(payload.size() / 3);
    shards.back().insert(shards.back().end(), part.begin(), part.end());
  }
  return shards;
}

std::string sum_by_name(std::span<const ShardTools::Term> terms) {
  std::string text = "sum of";
  for (const ShardTools::Term& term : terms)
    text += " " + to_hex(sha256(term.payload)) + std::to_string(term.weight);
  return text;
}

}  // namespace

TestRun::TestRun(std::vector<std::string> regions, Round rounds)
    : regions_(std::move(regions)), rounds_(rounds), pki_(regions_) {
  for (const std::string& region : regions_) {
    nodes_[region];
    std::filesystem::create_directories(directory(region));
  }
}

TestRun::~TestRun() {
  for (auto& [region, node] : nodes_) {
    node.worker.reset();
    if (node.coordinator) destroy(region);
  }
}

std::filesystem::path TestRun::directory(const std::string& region) const {
  // Longer than a socket address can hold.
  return root_.path() / std::string(100, 'd') / region;
}

std::vector<Member> TestRun::members(const std::string& region) const {
  std::vector<Member> members;
  for (const std::string& peer : regions_) {
    // Only the first name of a pair dials; a port of 1 answers nobody.
    const std::uint16_t port = nodes_.at(peer).port;
    const std::string address = "127.0.0.1:" + std::to_string(port == 0 ? 1 : port);
    members.push_back({.region = peer, .address = peer == region ? "127.0.0.1:0" : address});
  }
  return members;
}

CoordinatorOptions TestRun::options(const std::string& region, Start start) const {
  CoordinatorOptions options;
  options.region = region;
  options.members = members(region);
  options.start = start;
  options.protocol.pace = {.steps = 4 * rounds_, .k = 4};
  options.protocol.grace_min = milliseconds{1'000};
  options.protocol.grace_max = grace_max_;
  options.protocol.staleness_max = staleness_max_;
  if (egress_price_) options.egress_prices = {.otherwise = *egress_price_, .given = true};
  options.shared_config = nodes_.at(region).shared_config;
  options.directory = directory(region);
  options.protocol.spool_bytes = nodes_.at(region).spool_bytes_max;
  options.copying = copying_;
  options.on_round = [on_round = on_round_](const std::string&) { on_round(); };
  if (sharded_) {
    options.protocol.exchange = ExchangeKind::sharded;
    options.shards = {.cut = cut_in_three,
                      .sum = [this, region](auto terms, auto) { return sum(region, terms); }};
  }
  options.mesh.bind = {.host = "127.0.0.1", .port = nodes_.at(region).port};
  options.mesh.credentials = pki_.credentials(region);
  options.mesh.reconnect_delay_min = milliseconds{20};
  options.mesh.reconnect_delay_max = milliseconds{200};
  return options;
}

void TestRun::start(const std::string& region, Start start) {
  Node& node = nodes_.at(region);
  node.context = std::make_unique<asio::io_context>(1);
  node.outcome = std::make_shared<std::optional<RunOutcome>>();
  node.ended = std::make_shared<std::atomic<bool>>(false);
  node.coordinator =
      std::make_unique<Coordinator>(node.context->get_executor(), options(region, start));
  asio::co_spawn(
      *node.context, node.coordinator->run(),
      [outcome = node.outcome, ended = node.ended](std::exception_ptr failure, RunOutcome result) {
        try {
          if (failure) std::rethrow_exception(failure);
          *outcome = std::move(result);
        } catch (const std::exception& error) {
          *outcome = RunOutcome{1, error.what()};
        }
        *ended = true;
      });
  node.context->poll();  // as far as it gets at once: it listens, or has ended
  node.port = std::max(node.port, node.coordinator->listening_port());
  node.thread = std::thread([context = node.context.get()] { context->run(); });
}

void TestRun::start_all(const std::map<std::string, Round>& held_from) {
  for (auto region = regions_.rbegin(); region != regions_.rend(); ++region) {
    start(*region, *region == regions_.front() ? Start::found : Start::join);
    const auto held = held_from.find(*region);
    start_worker(*region, held == held_from.end() ? kNotHeld : held->second);
  }
}

void TestRun::start_worker(const std::string& region, Round held_from) {
  nodes_.at(region).worker = std::make_unique<FakeWorker>(directory(region), region, held_from);
}

void TestRun::destroy(const std::string& region) {
  Node& node = nodes_.at(region);
  node.context->stop();
  join(node);
  node.coordinator.reset();
  node.context.reset();
}

void TestRun::stop(const std::string& region) {
  Node& node = nodes_.at(region);
  asio::post(*node.context, [coordinator = node.coordinator.get()] { coordinator->stop(); });
}

void TestRun::collide(const std::string& region, const std::string& other) {
  nodes_.at(region).port = nodes_.at(other).port;
}

bool TestRun::is_idle(const std::string& region) {
  return eventually([this, &region] { return nodes_.at(region).context->stopped(); });
}

void TestRun::join(Node& node) {
  if (node.thread.joinable()) node.thread.join();
}

bool TestRun::eventually(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + seconds{60};
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

std::optional<RunOutcome> TestRun::outcome(const std::string& region) {
  Node& node = nodes_.at(region);
  if (!eventually([&node] { return node.ended->load(); })) return std::nullopt;
  join(node);
  return *node.outcome;
}

void TestRun::set_shared_config(const std::string& region, const std::string& text) {
  nodes_.at(region).shared_config = text;
}

ShardTools::Sum TestRun::sum(const std::string& region,
                             std::span<const ShardTools::Term> terms) const {
  std::string text = sum_by_name(terms);
  const std::lock_guard lock(mutex_);
  summed_[region].push_back(text);
  text.resize(std::max(text.size(), sum_bytes_), '.');
  const auto bytes = bytes_of(text);
  return {.payload = {bytes.begin(), bytes.end()}, .left_out = {}};
}

std::vector<std::string> TestRun::summed_by(const std::string& region) const {
  const std::lock_guard lock(mutex_);
  return summed_[region];
}

void TestRun::set_spool_bytes_max(const std::string& region, std::uint64_t bytes) {
  nodes_.at(region).spool_bytes_max = bytes;
}

}  // namespace causeway::diloco::testing
