// Cluster: a member with a valid key that lies to everybody, all the time. It says all messages
// there are, with fields at and near their bounds and near what is true, and repeats what it heard
// with changes.
//
// What it does not do is what no protocol of this kind survives (docs/security.md): it does not
// lead, so nothing is proposed by it where no other leader is followed.
#include <limits>
#include <system_error>
#include <utility>

#include "tests/diloco/cluster/cluster_parts.h"

namespace causeway::diloco::testing {

using std::chrono::milliseconds;

std::uint64_t Cluster::near(std::uint64_t value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t values[] = {0,
                                  1,
                                  value - 1,
                                  value,
                                  value + 1,
                                  value + 2,
                                  value + (1U << 20U),
                                  kTermMax - 1,
                                  kTermMax,
                                  kMost - 1,
                                  kMost};
  return values[random_() % std::size(values)];
}

Digest Cluster::any_digest(const Digest& known) {
  Digest digest = known;
  if (random_() % 2 == 0) digest[random_() % digest.size()] ^= 1U;
  return digest;
}

void Cluster::overhear(const Message& message) {
  constexpr std::size_t kKept = 200;
  if (overheard_.size() < kKept) return overheard_.push_back(message);
  overheard_[random_() % kKept] = message;
}

RaftMessage Cluster::make_raft_lie(const std::string& to) {
  const Raft& raft = nodes_.at(to).protocol->raft();
  const Index last = raft.log().last();
  RaftMessage lie{nodes_.at(options_.liar).incarnation, {}};
  switch (random_() % 4) {
    case 0:
      lie.body = VoteRequest{near(raft.term()), random_() % 2 == 0, near(last), near(raft.term())};
      break;
    case 1:
      lie.body = VoteReply{near(raft.term()), random_() % 2 == 0, random_() % 2 == 0};
      break;
    case 2: {
      AppendEntries append{near(raft.term()), near(last), near(raft.term()), {}, near(last)};
      if (last > 0 && random_() % 2 == 0) append.entries = raft.log().slice(last, 1);
      lie.body = std::move(append);
      break;
    }
    default:
      lie.body = AppendReply{near(raft.term()), random_() % 2 == 0, near(last)};
  }
  return lie;
}

// What one region contributed to the round, as another one's.
void Cluster::pass_off(Contribution& made, Round round) {
  for (const Message& message : overheard_) {
    const auto* holding = std::get_if<Holding>(&message);
    if (holding != nullptr && holding->contribution.round == round) made = holding->contribution;
  }
  do {
    made.region = options_.regions[random_() % options_.regions.size()];
  } while (made.region == options_.liar);
}

Holding Cluster::make_holding_lie(const std::string& to) {
  const Round version = nodes_.at(to).protocol->version();
  Contribution made{.run_id = kRunId, .region = options_.liar, .round = near(version)};
  for (const Message& message : overheard_) {
    const auto* holding = std::get_if<Holding>(&message);
    if (holding == nullptr || random_() % 8 != 0) continue;
    const std::string& speaker = holding->contribution.region;
    if (speaker != to) made = holding->contribution;
  }
  switch (random_() % 10) {
    case 0:
      made.round = near(version);
      break;
    case 1:
      made.part = static_cast<std::uint32_t>(near(made.part));
      break;
    case 2:
      made.tokens = near(made.tokens);
      break;
    case 3:
      made.data_cursor = near(made.data_cursor);
      break;
    case 4:
      made.state = any_digest(made.state);
      break;
    case 5:
      made.payload.hash = any_digest(made.payload.hash);
      break;
    case 6:
      made.sits_out = !made.sits_out;
      break;
    case 7:
    case 8:
      pass_off(made, version);
      break;
    default:
      made.compute_s = made.exchange_s = made.overhead_s = 1e308;
  }
  if (random_() % 8 == 0) made.held_out_loss = 1.7e308;
  return {made, near(made.payload.size_bytes), random_() % 2 == 0};
}

// A snapshot of an agreed state, which can be had, and is something else.
void Cluster::announce_wrong(Status& status, const RoundProtocol& told) {
  const Round version = status.received_bytes / 2 % told.version();
  const Digest state = told.record(version).state;
  const Status* newest = nullptr;
  for (const Message& one : overheard_) {
    const Status* const said = std::get_if<Status>(&one);
    if (said != nullptr && (newest == nullptr || said->version > newest->version)) newest = said;
  }
  if (newest == nullptr) return;
  const std::optional<Snapshot> honest = newest->snapshot;
  status = *newest;
  if (version % 4 == 3) {  // nothing at all
    status.snapshot = {version, state, keep(options_.liar, "", 0)};
    return;
  }
  if (version % 4 == 2 && honest) {  // another one's bytes
    status.snapshot = {version, state, honest->blob};
    return;
  }
  status.snapshot = {version, state, keep(options_.liar, "a lie of " + to_hex(state), 4000)};
}

// About a sharded round: contributions that nobody has, sums that are none, and a leader's word.
Message Cluster::make_shard_lie(const std::string& to) {
  const RoundProtocol& told = *nodes_.at(to).protocol;
  Draft draft;
  Contribution made{.run_id = kRunId, .region = options_.liar, .round = told.version()};
  for (const Message& message : overheard_) {
    if (const auto* one = std::get_if<Draft>(&message)) draft = *one;
    const auto* holding = std::get_if<Holding>(&message);
    if (holding != nullptr && random_() % 8 == 0) made = holding->contribution;
  }
  switch (random_() % 5) {
    case 0: {  // its own, made from the right state
      made = {.run_id = kRunId, .region = options_.liar, .round = told.version()};
      made.state = nodes_.at(to).worker.holds.state;
      made.data_begin = random_();
      made.data_cursor = made.data_begin + 10;
      for (std::size_t i = 0; i < options_.shards; ++i)
        made.shards.push_back(make_blob("a lie " + std::to_string(random_()), 1 + random_() % 400));
      made.payload = whole_of(made.shards);
      history_.made(made);
      return Holding{made, made.payload.size_bytes, true};
    }
    case 1:  // another's
      return Holding{made, made.payload.size_bytes, false};
    case 2:  // all that there are
      return ShardSums{
          draft.record.round, draft_digest(draft.record), {}, whole_of(draft.record.sums).hash};
    case 3: {
      ShardSums sums{draft.record.round, draft_digest(draft.record), {}};
      const bool serves = random_() % 2 == 0;
      for (std::uint32_t i = 0; i < options_.shards; ++i) {
        const std::string content = "a lie " + std::to_string(random_());
        sums.sums[i] = serves ? keep(options_.liar, content, 200) : make_blob(content, 200);
        history_.summed(sums.sums[i], draft.record.round);
      }
      return sums;
    }
    default:
      if (!draft.record.participants.empty()) draft.record.participants.back().weight /= 2;
      draft.record.round = near(draft.record.round);
      draft.duties.push_back({static_cast<std::uint32_t>(near(64)), to});
      return draft;
  }
}

Message Cluster::make_lie(const std::string& to) {
  if (options_.shards > 0 && random_() % 3 == 0) return make_shard_lie(to);
  const RoundProtocol& told = *nodes_.at(to).protocol;
  const Applied holds = nodes_.at(to).worker.holds;
  const std::string member = options_.regions[random_() % options_.regions.size()];
  switch (random_() % 10) {
    case 0:
    case 1: {
      Status status;
      status.version = near(told.version());
      status.head = any_digest({});
      status.applied = Applied{near(holds.version), any_digest(holds.state)};
      status.payloads_from = near(0);
      status.snapshot = {near(holds.version), any_digest(holds.state), make_blob("a lie", 4000)};
      status.received_bytes = random_();
      if (const auto snapshot = told.status().snapshot) status.leaps = {*snapshot};  // for ever
      status.awaits_snapshot = random_() % 2 == 0;
      status.older = {{near(holds.version), holds.state, make_blob("an older lie", 4000)}};
      if (status.received_bytes % 2 == 0 && told.version() > 0) announce_wrong(status, told);
      return status;
    }
    case 2:
    case 3:
      return make_holding_lie(to);
    case 4:
      return Diverged{near(told.version()), make_blob("a lie", 4000), random_() % 2 == 0};
    case 5:
      return ChangeMember{{.region = random_() % 2 == 0 ? member : "new" + member,
                           .address = "a lie",
                           .witness = random_() % 2 == 0},
                          random_() % 2 == 0};
    case 6:
      return Finished{};
    case 7:
      if (!overheard_.empty()) {
        Message message = overheard_[random_() % overheard_.size()];
        if (auto* raft = std::get_if<RaftMessage>(&message)) {
          raft->incarnation = nodes_.at(options_.liar).incarnation;
        }
        const bool holding =
            std::holds_alternative<Holding>(message) || std::holds_alternative<Holdings>(message);
        if (!holding) return message;
      }
      [[fallthrough]];
    default:
      return make_raft_lie(to);
  }
}

void Cluster::lie() {
  at(now_ + random_time(milliseconds{5}, milliseconds{400}), [this] {
    for (const std::string& region : options_.regions) {
      if (!honest(region) || nodes_.at(region).protocol == nullptr) continue;
      if (random_() % 3 == 0) send(options_.liar, region, make_lie(region));
    }
    // Now and then it connects anew.
    if (random_() % 50 == 0) drop_links(options_.liar);
    for (const std::string& region : options_.regions) {
      if (honest(region)) connect(options_.liar, region);
    }
    lie();
  });
}

void Cluster::deliver_lie(const std::string& to, const std::string& bytes) {
  const Node& node = nodes_.at(to);
  if (node.protocol == nullptr) return;
  try {
    const Message message = parse_message(bytes);
    const auto* raft = std::get_if<RaftMessage>(&message);
    const bool leads = raft != nullptr && std::holds_alternative<AppendEntries>(raft->body);
    if (leads && !node.protocol->raft().is_led(now_ + node.clock_offset)) return;
    deliver(to, PeerSaid{options_.liar, message});
  } catch (const std::system_error&) {
    // The coordinator ignores what cannot be parsed.
  }
}

}  // namespace causeway::diloco::testing
