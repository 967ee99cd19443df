#include "diloco/log/messages.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "diloco/log/wire.h"

namespace causeway::diloco {
namespace {

// With the digest of what is frozen, by causeway.torch: docs/python.md.
constexpr std::string_view kFrozen = "lowest:frozen:";
constexpr const char* kOtherFrozen =
    " (its frozen parameters have other values than those here: another checkpoint, or random "
    "ones of another seed)";

std::string shape_text(const NamedTensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.shape)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  return "(" + text + ")";
}

using ByName = std::unordered_map<std::string_view, const NamedTensor*>;

ByName by_name(const NamedTensors& tensors) {
  ByName named;
  for (const NamedTensor& tensor : tensors) named[tensor.name] = &tensor;
  return named;
}

bool are_alike(const NamedTensor& a, const NamedTensor& b) {
  return a.name == b.name && a.shape == b.shape;
}

// What a message holds beside the names: numbers and digests.
std::size_t bytes_about(const NamedTensor& tensor) {
  return tensor.name.size() + 10 * tensor.shape.size() + 50;
}

}  // namespace

std::string other_tensor(const NamedTensors& here, const NamedTensors& there,
                         const std::string& region) {
  const auto [mine, theirs] = std::ranges::mismatch(here, there, are_alike);
  if (mine == here.end() && theirs == there.end()) return {};
  const ByName named_here = by_name(here), named_there = by_name(there);
  for (const NamedTensor& own : here) {
    const auto other = named_there.find(own.name);
    if (other == named_there.end()) {
      return region + " has no tensor \"" + own.name + "\", which is here" +
             (own.name.starts_with(kFrozen) ? kOtherFrozen : "");
    }
    if (own.shape != other->second->shape) {
      return "the tensor \"" + own.name + "\" has the shape " + shape_text(own) + " here and " +
             shape_text(*other->second) + " in " + region;
    }
  }
  for (const NamedTensor& other : there) {
    if (!named_here.contains(other.name))
      return region + " has a tensor \"" + other.name + "\", which is not here";
  }
  if (mine == here.end() || theirs == there.end()) return region + " has a name twice";
  return fmt::format("tensor number {} is \"{}\" here and \"{}\" in {}", mine - here.begin() + 1,
                     mine->name, theirs->name, region);
}

std::vector<Tensors> in_pieces(const NamedTensors& tensors) {
  constexpr std::size_t kPieceBytes = 1U << 20;
  std::vector<Tensors> pieces;
  std::size_t bytes = kPieceBytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    bytes += bytes_about(tensors[i]);
    if (bytes > kPieceBytes) {
      pieces.push_back({.tensors = {}, .earlier = i, .total = tensors.size()});
      bytes = bytes_about(tensors[i]);
    }
    pieces.back().tensors.push_back(tensors[i]);
  }
  return pieces;
}

std::optional<std::string> other_values(const NamedTensors& here, const NamedTensors& there) {
  const auto differ = [](const NamedTensor& a, const NamedTensor& b) {
    return a.values && b.values && a.values != b.values;
  };
  const auto found = std::ranges::mismatch(
      here, there, [&](const NamedTensor& a, const NamedTensor& b) { return !differ(a, b); });
  return found.in1 == here.end() || found.in2 == there.end() ? std::nullopt
                                                             : std::optional(found.in1->name);
}

void encode(const NamedTensors& tensors, wire::Tensors* out) {
  for (const NamedTensor& tensor : tensors) {
    wire::Tensor* one = out->add_tensors();
    one->set_name(tensor.name);
    for (const std::int64_t size : tensor.shape) one->add_shape(size);
    if (tensor.values) encode(*tensor.values, one->mutable_values());
  }
}

NamedTensors decode(const wire::Tensors& message) {
  constexpr std::size_t kTensorNameMax = 1000;
  NamedTensors tensors;
  std::unordered_set<std::string_view> names;
  for (const wire::Tensor& one : message.tensors()) {
    if (one.name().size() > kTensorNameMax) throw_malformed("a tensor's name is too long");
    if (!names.insert(one.name()).second) throw_malformed("two tensors have one name");
    NamedTensor tensor{.name = one.name(), .shape = {one.shape().begin(), one.shape().end()}};
    if (!one.values().empty()) tensor.values = decode_digest(one.values());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::string serialize(const NamedTensors& tensors) {
  wire::Tensors out;
  encode(tensors, &out);
  return out.SerializeAsString();
}

NamedTensors parse_tensors(const std::string& bytes) {
  wire::Tensors message;
  if (!message.ParseFromString(bytes)) throw_malformed("a list of tensors cannot be parsed");
  return decode(message);
}

void encode(const Snapshot& snapshot, wire::Snapshot* out) {
  out->set_version(snapshot.version);
  encode(snapshot.state, out->mutable_state());
  encode(snapshot.blob, out->mutable_blob());
}

Snapshot decode(const wire::Snapshot& message) {
  return {.version = message.version(),
          .state = decode_digest(message.state()),
          .blob = decode(message.blob())};
}

namespace {

// One overload per message: into the envelope.
void put(const Status& status, wire::PeerMessage* out) {
  wire::Status* body = out->mutable_status();
  body->set_version(status.version);
  encode(status.head, body->mutable_head());
  if (status.applied) {
    body->set_has_applied(true);
    body->set_applied(status.applied->version);
    encode(status.applied->state, body->mutable_applied_state());
  }
  body->set_payloads_from(status.payloads_from);
  if (status.snapshot) encode(*status.snapshot, body->mutable_snapshot());
  body->set_received_bytes(status.received_bytes);
  if (status.data) {
    encode(status.data->sample, body->mutable_data()->mutable_sample());
    if (status.data->whole) encode(*status.data->whole, body->mutable_data()->mutable_whole());
  }
  for (const inter::BlobId& payload : status.missing) encode(payload, body->add_missing());
  body->set_revision(status.revision);
  for (const Snapshot& leap : status.leaps) encode(leap, body->add_leaps());
  for (const Snapshot& older : status.older) encode(older, body->add_older());
  body->set_awaits_snapshot(status.awaits_snapshot);
}

void fill(wire::Holding* body, const Holding& holding) {
  encode(holding.contribution, body->mutable_contribution());
  body->set_received_bytes(holding.received_bytes);
  body->set_pushing(holding.pushing);
}

void put(const Holding& holding, wire::PeerMessage* out) {
  fill(out->mutable_holding(), holding);
}

void put(const Holdings& all, wire::PeerMessage* out) {
  for (const Holding& one : all.holdings) fill(out->mutable_holdings()->add_holdings(), one);
}

void put(const RaftMessage& message, wire::PeerMessage* out) {
  encode(message, out->mutable_raft());
}

void put(const Diverged& diverged, wire::PeerMessage* out) {
  out->mutable_diverged()->set_round(diverged.round);
  encode(diverged.payload, out->mutable_diverged()->mutable_payload());
  out->mutable_diverged()->set_tie(diverged.tie);
}

void put(const ChangeMember& change, wire::PeerMessage* out) {
  encode(change.member, out->mutable_change_member()->mutable_member());
  out->mutable_change_member()->set_remove(change.remove);
}

void put(const Finished&, wire::PeerMessage* out) {
  out->mutable_finished();
}

void put(const Tensors& tensors, wire::PeerMessage* out) {
  wire::Tensors* body = out->mutable_tensors();
  encode(tensors.tensors, body);
  body->set_earlier(tensors.earlier);
  body->set_total(tensors.total);
}

void put(const Draft& draft, wire::PeerMessage* out) {
  encode(draft.record, out->mutable_draft()->mutable_record());
  for (const Draft::Duty& duty : draft.duties) {
    wire::Draft::Duty* one = out->mutable_draft()->add_duties();
    one->set_shard(duty.shard);
    one->set_region(duty.region);
  }
}

void put(const ShardSums& sums, wire::PeerMessage* out) {
  wire::ShardSums* body = out->mutable_shard_sums();
  body->set_round(sums.round);
  encode(sums.draft, body->mutable_draft());
  if (sums.held) encode(*sums.held, body->mutable_held());
  for (const auto& [shard, blob] : sums.sums) {
    wire::ShardSums::Sum* one = body->add_sums();
    one->set_shard(shard);
    encode(blob, one->mutable_blob());
  }
}

// Shards are 64 at most, and each may be given to every region. Empty ones take two bytes there.
constexpr int kDutiesMax = 1 << 16;

Draft take(const wire::Draft& body) {
  if (body.duties_size() > kDutiesMax) throw_malformed("too many duties in one draft");
  Draft draft{.record = decode(body.record())};
  for (const wire::Draft::Duty& one : body.duties())
    draft.duties.push_back({one.shard(), one.region()});
  return draft;
}

ShardSums take(const wire::ShardSums& body) {
  ShardSums sums{.round = body.round(), .draft = decode_digest(body.draft()), .sums = {}};
  for (const wire::ShardSums::Sum& one : body.sums()) sums.sums[one.shard()] = decode(one.blob());
  if (!body.held().empty()) sums.held = decode_digest(body.held());
  return sums;
}

Status take(const wire::Status& body) {
  Status status{.version = body.version(),
                .head = decode_digest(body.head()),
                .applied = {},
                .payloads_from = body.payloads_from(),
                .snapshot = {},
                .received_bytes = body.received_bytes()};
  if (body.has_applied()) {
    status.applied = {.version = body.applied(), .state = decode_digest(body.applied_state())};
  }
  if (body.has_snapshot()) status.snapshot = decode(body.snapshot());
  if (body.has_data()) {
    status.data = {.sample = decode_digest(body.data().sample())};
    if (!body.data().whole().empty()) status.data->whole = decode_digest(body.data().whole());
  }
  for (const wire::BlobId& payload : body.missing()) status.missing.push_back(decode(payload));
  status.revision = body.revision();
  for (const wire::Snapshot& leap : body.leaps()) status.leaps.push_back(decode(leap));
  for (const wire::Snapshot& older : body.older()) status.older.push_back(decode(older));
  status.awaits_snapshot = body.awaits_snapshot();
  return status;
}

Holding take(const wire::Holding& body) {
  return {.contribution = decode(body.contribution()),
          .received_bytes = body.received_bytes(),
          .pushing = body.pushing()};
}

Holdings take(const wire::Holdings& body) {
  Holdings all;
  for (const wire::Holding& one : body.holdings()) all.holdings.push_back(take(one));
  return all;
}

}  // namespace

Digest draft_digest(const CommitRecord& draft) {
  const CommitRecord summed{.run_id = draft.run_id,
                            .round = draft.round,
                            .participants = draft.participants,
                            .state = draft.state,
                            .revision = draft.revision};
  const std::string bytes = serialize(summed);
  return sha256(std::as_bytes(std::span(bytes)));
}

std::string serialize(const Message& message) {
  wire::PeerMessage out;
  std::visit([&out](const auto& body) { put(body, &out); }, message);
  return out.SerializeAsString();
}

Message parse_message(const std::string& bytes) {
  wire::PeerMessage message;
  if (!message.ParseFromString(bytes)) throw_malformed("a peer's message cannot be parsed");
  switch (message.body_case()) {
    case wire::PeerMessage::kStatus:
      return take(message.status());
    case wire::PeerMessage::kHolding:
      return take(message.holding());
    case wire::PeerMessage::kRaft:
      return decode(message.raft());
    case wire::PeerMessage::kDiverged:
      return Diverged{message.diverged().round(), decode(message.diverged().payload()),
                      message.diverged().tie()};
    case wire::PeerMessage::kChangeMember:
      return ChangeMember{decode(message.change_member().member()),
                          message.change_member().remove()};
    case wire::PeerMessage::kFinished:
      return Finished{};
    case wire::PeerMessage::kHoldings:
      return take(message.holdings());
    case wire::PeerMessage::kDraft:
      return take(message.draft());
    case wire::PeerMessage::kShardSums:
      return take(message.shard_sums());
    case wire::PeerMessage::kTensors:
      return Tensors{.tensors = decode(message.tensors()),
                     .earlier = message.tensors().earlier(),
                     .total = message.tensors().total()};
    case wire::PeerMessage::BODY_NOT_SET:
      break;
  }
  throw_malformed("a peer's message has no known body");
}

}  // namespace causeway::diloco
