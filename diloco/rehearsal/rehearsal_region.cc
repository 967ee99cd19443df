#include "diloco/rehearsal/rehearsal_region.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace causeway::diloco::tuner {
namespace {

constexpr std::uint64_t kEndless = 1ULL << 40;
}  // namespace

RehearsalRegion::RehearsalRegion(World& world, const RehearsalOptions& options, std::string name)
    : world_(world),
      options_(options),
      name_(std::move(name)),
      speed_(options.regions.at(name_)),
      worker_(world, options, name_, [this](const Event& event) {
        const auto* by = std::get_if<WorkerContributed>(&event);
        const bool cuts = by != nullptr && by->contribution.part == 0 && protocol_->sharded();
        cuts ? deliver_cut(by->contribution) : deliver(event);
      }) {}

RehearsalRegion::~RehearsalRegion() = default;

// The founder's log begins with all members, one of which has a vote.
PersistentState RehearsalRegion::disk() const {
  PersistentState disk;
  disk.run_id = kRunId;
  if (name_ != options_.founder) return disk;
  Membership membership;
  for (const auto& [region, pace] : options_.regions) {
    membership = with(membership, {.region = region, .incarnation = region == name_ ? name_ : ""});
  }
  disk.raft = {.term = 1, .vote = {}, .log = {{.term = 1, .body = membership}}, .committed = 1};
  return disk;
}

void RehearsalRegion::start() {
  ProtocolOptions protocol = options_.protocol;
  protocol.self = protocol.incarnation = name_;
  protocol.pace = {.steps = kEndless, .k = options_.k};
  protocol.seed = seed_of(options_.seed + 1, name_);
  protocol_.emplace(protocol, disk());
  channel_ = world_.start(name_, kRunId, *this);
  deliver(Tick{});
  worker_.attach();
}

void RehearsalRegion::poll() {
  for (const inter::BlobId& blob : protocol_->wanted()) {
    const std::uint64_t bytes = world_.received_bytes(name_, blob);
    if (bytes > 0) deliver(BlobProgress{blob, bytes});
  }
}

void RehearsalRegion::deliver(const Event& event) {
  events_.push_back(event);
  pump();
}

void RehearsalRegion::pump() {
  while (!saving_ && !ended_) {
    if (!actions_.empty()) {
      const Action action = std::move(actions_.front());
      actions_.pop_front();
      const double seconds = saving_s(action);
      std::visit(*this, action);
      if (seconds <= 0) continue;
      saving_ = true;
      after_s(world_, seconds, [this] {
        saving_ = false;
        pump();
      });
    } else if (!events_.empty()) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      for (Action& action : protocol_->handle(event, world_.now()))
        actions_.push_back(std::move(action));
      schedule_tick();
    } else {
      return;
    }
  }
}

// Files that are replaced take two syncs, theirs and their directory's; the ledger one.
double RehearsalRegion::saving_s(const Action& action) const {
  if (std::holds_alternative<AppendLedger>(action)) return speed_.save_s / 2;
  const bool saves = std::holds_alternative<SaveRaft>(action) ||
                     std::holds_alternative<SaveContributions>(action) ||
                     std::holds_alternative<SaveSnapshot>(action);
  return saves ? speed_.save_s : 0;
}

void RehearsalRegion::schedule_tick() {
  const auto next = protocol_->next_deadline();
  if (!next || (tick_at_ && *tick_at_ <= *next)) return;
  tick_at_ = std::max<Time>(*next, world_.now() + std::chrono::milliseconds{1});
  world_.after(*tick_at_ - world_.now(), [this, at = *tick_at_] {
    if (tick_at_ != at) return;
    tick_at_.reset();
    deliver(Tick{});
  });
}

// ---- Links ----

void RehearsalRegion::on_peer_up(const std::string& peer, const std::string&) {
  deliver(PeerUp{peer, peer});
}
void RehearsalRegion::on_peer_down(const std::string& peer, const std::string&) {
  deliver(PeerDown{peer});
}
void RehearsalRegion::on_message(const std::string& peer, const std::string& message) {
  deliver(PeerSaid{peer, parse_message(message)});
}
void RehearsalRegion::on_blob(const std::string&, const inter::BlobId& id) {
  after_s(world_, worker_.part(speed_.store_s) * share_of_payload(id),
          [this, id] { deliver(BlobArrived{id}); });
}

// Snapshots stand for nothing.
double RehearsalRegion::share_of_payload(const inter::BlobId& blob) const {
  const double payload_bytes = worker_.part(static_cast<double>(options_.payload_bytes));
  return std::min(1.0, static_cast<double>(blob.size_bytes) / std::max(1.0, payload_bytes));
}
void RehearsalRegion::operator()(const SendMessage& action) {
  channel_->send(action.peer, serialize(action.message));
}

namespace {

// Between a worker and its coordinator: a message over a Unix socket, and the answer.
constexpr double kSocketS = 0.5e-3;
// Exchanges between snapshots, which let old payloads be forgotten.
constexpr Round kSnapshotInterval = 10;

inter::BlobId blob_named(const std::string& name, std::uint64_t size_bytes) {
  return {.hash = sha256(std::as_bytes(std::span(name))), .size_bytes = size_bytes};
}

Digest next_state(const Digest& state, const CommitRecord& record) {
  const std::string content = to_hex(state) + serialize(record);
  return sha256(std::as_bytes(std::span(content)));
}

}  // namespace

// Into as many shards as there can be.
void RehearsalRegion::deliver_cut(const Contribution& made) {
  Contribution cut = made;
  world_.release(name_, made.payload);
  for (std::size_t i = 0; i < kShardsMax; ++i) {
    cut.shards.push_back(blob_named(fmt::format("{}/{}#{}", name_, made.round, i),
                                    made.payload.size_bytes / kShardsMax + 1));
    world_.hold(name_, cut.shards.back());
  }
  cut.payload = whole_of(cut.shards);
  deliver(WorkerContributed{cut});
}

void RehearsalRegion::operator()(const SumShard& action) {
  const double whole_s = worker_.part(speed_.apply_s + speed_.encode_s + speed_.store_s);
  const Time took{std::llround(whole_s * share_of_payload(action.inputs.front()) * 1e6)};
  summing_until_ = std::max(summing_until_, world_.now()) + took;
  std::string name = fmt::format("sum {}", action.shard);
  for (const inter::BlobId& input : action.inputs) name += to_hex(input.hash);
  const inter::BlobId sum = blob_named(name, action.inputs.front().size_bytes);
  const ShardSummed made{draft_digest(action.draft), action.shard, sum};
  world_.after(summing_until_ - world_.now(), [this, made] {
    world_.hold(name_, made.sum);
    deliver(made);
  });
}

std::uint64_t seed_of(std::uint64_t seed, const std::string& region) {
  std::seed_seq sequence(region.begin(), region.end());
  std::uint32_t words[2];
  sequence.generate(words, words + 2);
  return seed ^ (std::uint64_t{words[0]} << 32 | words[1]);
}

void after_s(World& world, double seconds, std::function<void()> event) {
  world.after(Time{static_cast<Time::rep>(std::llround(seconds * 1e6))}, std::move(event));
}

RehearsalWorker::RehearsalWorker(World& world, const RehearsalOptions& options, std::string region,
                                 Tell tell)
    : world_(world),
      options_(options),
      region_(std::move(region)),
      speed_(options.regions.at(region_)),
      tell_(std::move(tell)),
      chance_(seed_of(options.seed, region_)) {
  holds_.state = sha256(std::as_bytes(std::span("initial", 7)));
}

void RehearsalWorker::attach() {
  later(kSocketS, [this] { tell_(WorkerAttached{holds_, false, ""}); });
}

void RehearsalWorker::later(double seconds, std::function<void()> event) {
  after_s(world_, seconds, std::move(event));
}

void RehearsalWorker::ready_soon() {
  later(kSocketS, [this] { tell_(WorkerReady{}); });
}

double RehearsalWorker::fragments() const {
  return options_.overlap.variant == Variant::streaming ? std::max(1U, options_.overlap.fragments)
                                                        : 1U;
}

double RehearsalWorker::steps_s(std::uint64_t count) {
  std::normal_distribution<double> noise(0, 1);
  const auto n = static_cast<double>(count);
  return std::max(n * speed_.step_s / 2,
                  n * speed_.step_s + std::sqrt(n) * speed_.step_deviation_s * noise(chance_));
}

void RehearsalWorker::compute_to(std::uint64_t step, std::function<void()> then) {
  const double seconds = step > steps_ ? steps_s(step - steps_) : 0;
  later(seconds, [this, step, seconds, then = std::move(then)] {
    steps_ = std::max(steps_, step);
    compute_s_ += seconds;
    then();
  });
}

void RehearsalWorker::operator()(const WelcomeWorker&) {
  ready_soon();
}

void RehearsalWorker::operator()(const OrderTrain& order) {
  const std::uint64_t begin = steps_;
  busy_ = true;
  cursor_ = std::max(cursor_, order.data_cursor);
  compute_to(start_step(options_.overlap, options_.k, order.round), [this, order, begin] {
    later(part(speed_.encode_s + speed_.store_s), [this, order, begin] {
      contribute(order.round, 0, std::max<std::uint64_t>(1, steps_ - begin));
      compute_to(finish_step(options_.overlap, options_.k, order.round), [this] {
        busy_ = false;
        settle();
      });
    });
  });
}

void RehearsalWorker::contribute(Round round, std::uint32_t part, std::uint64_t steps) {
  const auto bytes = static_cast<double>(options_.payload_bytes) / fragments();
  const inter::BlobId payload =
      blob_named(fmt::format("{}/{}.{}", region_, round, part),
                 std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes)));
  world_.hold(region_, payload);
  tell_(WorkerContributed{{.run_id = kRunId,
                           .region = region_,
                           .round = round,
                           .part = part,
                           .tokens = steps,
                           .steps = static_cast<std::uint32_t>(steps),
                           .compute_s = static_cast<double>(steps) * speed_.step_s,
                           .data_begin = cursor_,
                           .data_cursor = cursor_ + steps,
                           .state = holds_.state,
                           .delta_norm = 1,
                           .error_norm = 0.1,
                           .payload = payload}});
  cursor_ += steps;
  extra_steps_ = 0;
  ready_soon();
}

void RehearsalWorker::operator()(const OrderApply& order) {
  record_ = order.record;
  settle();
}

// The record is there and the worker has come to where it is applied.
void RehearsalWorker::settle() {
  if (!record_ || busy_) return;
  busy_ = true;
  // Measured for the payloads of all regions; a sharded round has the sum alone.
  const double sums = record_->sums.empty() ? 1 : static_cast<double>(options_.regions.size());
  later(part(speed_.apply_s) / sums, [this] { apply(); });
}

void RehearsalWorker::apply() {
  const CommitRecord record = *std::exchange(record_, std::nullopt);
  busy_ = false;
  steps_ = std::max(steps_, start_step(options_.overlap, options_.k, record.round));
  holds_ = {.version = record.round + 1, .state = next_state(holds_.state, record)};
  const auto listed = std::ranges::count_if(record.participants, [&record](const auto& one) {
    return one.round == record.round && one.part == 0;
  });
  marks_.push_back({world_.now(), compute_s_, static_cast<std::size_t>(listed)});
  tell_(WorkerApplied{holds_});
  offer_snapshot();
  ready_soon();
}

void RehearsalWorker::offer_snapshot() {
  if (holds_.version % kSnapshotInterval != 0) return;
  const inter::BlobId blob = blob_named("snapshot " + to_hex(holds_.state), 1);
  world_.hold(region_, blob);
  tell_(WorkerOffered{{holds_.version, holds_.state, blob}});
}

// ---- Cut off ----

void RehearsalWorker::operator()(const OrderContinue& order) {
  continuing_ = true;
  later(steps_s(order.k), [this, k = order.k] {
    if (!std::exchange(continuing_, false)) return;
    extra_steps_ += k;
    tell_(WorkerReady{});
  });
}

void RehearsalWorker::operator()(const OrderCallBack&) {
  if (!std::exchange(continuing_, false)) return;
  extra_steps_ += 1;
  later(speed_.step_s, [this] { tell_(WorkerReady{}); });
}

void RehearsalWorker::operator()(const OrderCollect& order) {
  later(speed_.encode_s,
        [this, order] { contribute(order.round, 1, std::max<std::uint64_t>(1, extra_steps_)); });
}

void RehearsalWorker::operator()(const OrderRestore& order) {
  later(speed_.apply_s, [this, order] {
    holds_ = {.version = order.snapshot.version, .state = order.snapshot.state};
    tell_(WorkerApplied{holds_});
    ready_soon();
  });
}

void RehearsalWorker::operator()(const OrderFinish&) {
  later(kSocketS, [this] { tell_(WorkerLost{}); });
}

}  // namespace causeway::diloco::tuner
