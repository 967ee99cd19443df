#include "diloco/log/messages.h"

#include "diloco/log/wire.h"

namespace causeway::diloco {

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
}

void put(const Holding& holding, wire::PeerMessage* out) {
  wire::Holding* body = out->mutable_holding();
  encode(holding.contribution, body->mutable_contribution());
  body->set_received_bytes(holding.received_bytes);
  body->set_pushing(holding.pushing);
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
  encode(tensors.tensors, out->mutable_tensors());
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
  return status;
}

Holding take(const wire::Holding& body) {
  return {.contribution = decode(body.contribution()),
          .received_bytes = body.received_bytes(),
          .pushing = body.pushing()};
}

}  // namespace

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
    case wire::PeerMessage::kTensors:
      return Tensors{decode(message.tensors())};
    case wire::PeerMessage::BODY_NOT_SET:
      break;
  }
  throw_malformed("a peer's message has no known body");
}

}  // namespace causeway::diloco
