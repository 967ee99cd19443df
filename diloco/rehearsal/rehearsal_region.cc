#include "diloco/rehearsal/rehearsal_region.h"

#include <algorithm>
#include <utility>

namespace causeway::diloco::tuner {
namespace {

constexpr std::uint64_t kEndless = 1ULL << 40;
}  // namespace

RehearsalRegion::RehearsalRegion(World& world, const RehearsalOptions& options, std::string name)
    : world_(world),
      options_(options),
      name_(std::move(name)),
      speed_(options.regions.at(name_)),
      worker_(world, options, name_, [this](const Event& event) { deliver(event); }) {}

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
  after_s(world_, worker_.part(speed_.store_s), [this, id] { deliver(BlobArrived{id}); });
}
void RehearsalRegion::operator()(const SendMessage& action) {
  channel_->send(action.peer, serialize(action.message));
}

}  // namespace causeway::diloco::tuner
