// Decisions on K, and Raft's values, and their Protocol Buffers messages.

#include "diloco/log/wire.h"

#include "inter/base/region_name.h"

namespace causeway::diloco {
namespace {

void encode_spending(const Spending& spending, wire::Spending* out) {
  out->set_period(static_cast<wire::Spending::Period>(spending.period));
  out->set_limit(spending.limit);
  out->set_spent(spending.spent);
  out->set_round_cost(spending.round_cost);
  out->set_until_unix_s(spending.until_unix_s);
}

std::optional<Spending> decode_spending(const wire::KDecision& message) {
  if (!message.has_spending()) return std::nullopt;
  const wire::Spending& from = message.spending();
  if (!wire::Spending::Period_IsValid(from.period())) throw_malformed("a budget's period");
  check_measured({from.limit(), from.spent(), from.round_cost(), from.until_unix_s()},
                 "a budget's figure");
  return Spending{.period = static_cast<Spending::Period>(from.period()),
                  .limit = from.limit(),
                  .spent = from.spent(),
                  .round_cost = from.round_cost(),
                  .until_unix_s = from.until_unix_s()};
}

}  // namespace

void encode(const KDecision& decision, wire::KDecision* out) {
  out->set_verdict(static_cast<wire::KDecision::Verdict>(decision.verdict));
  out->set_from(decision.from);
  out->set_k(decision.k);
  out->set_step_s(decision.step_s);
  out->set_prepare_s(decision.prepare_s);
  out->set_exchange_s(decision.exchange_s);
  out->set_time_ratio(decision.time_ratio);
  out->set_held_out_before(decision.held_out_before);
  out->set_held_out_after(decision.held_out_after);
  out->set_standard_error(decision.standard_error);
  if (decision.spending) encode_spending(*decision.spending, out->mutable_spending());
}

KDecision decode(const wire::KDecision& from) {
  if (!wire::KDecision::Verdict_IsValid(from.verdict()) || from.k() == 0)
    throw_malformed("a decision on K that cannot be");
  check_measured({from.step_s(), from.prepare_s(), from.exchange_s(), from.time_ratio(),
                  from.standard_error()},
                 "a decision's figure");
  check_finite({from.held_out_before(), from.held_out_after()}, "a decision's loss");
  return {.verdict = static_cast<KDecision::Verdict>(from.verdict()),
          .from = from.from(),
          .k = from.k(),
          .step_s = from.step_s(),
          .prepare_s = from.prepare_s(),
          .exchange_s = from.exchange_s(),
          .time_ratio = from.time_ratio(),
          .held_out_before = from.held_out_before(),
          .held_out_after = from.held_out_after(),
          .standard_error = from.standard_error(),
          .spending = decode_spending(from)};
}

bool may_be_incarnation(const std::string& text) {
  constexpr std::size_t kIncarnationMax = 64;
  return text.size() <= kIncarnationMax;
}

void encode(const Member& member, wire::Member* out) {
  out->set_region(member.region);
  out->set_address(member.address);
  out->set_witness(member.witness);
  out->set_incarnation(member.incarnation);
}

namespace {

void put(const Origin& origin, wire::Origin* out) {
  out->set_run_id(origin.run_id);
  out->set_version(origin.version);
  encode(origin.state, out->mutable_state());
  encode(origin.blob, out->mutable_blob());
}

Origin take(const wire::Origin& message) {
  return {.run_id = message.run_id(),
          .version = message.version(),
          .state = decode_digest(message.state()),
          .blob = decode(message.blob())};
}

}  // namespace

std::size_t encoded_bytes(const LogEntry& entry) {
  wire::LogEntry out;
  encode(entry, &out);
  return out.ByteSizeLong();
}

void encode(const LogEntry& entry, wire::LogEntry* out) {
  out->set_term(entry.term);
  if (const auto* record = std::get_if<CommitRecord>(&entry.body)) {
    encode(*record, out->mutable_record());
  } else if (const auto* membership = std::get_if<Membership>(&entry.body)) {
    out->mutable_membership();
    for (const Member& member : membership->members) {
      encode(member, out->mutable_membership()->add_members());
    }
    if (membership->origin) {
      put(*membership->origin, out->mutable_membership()->mutable_origin());
    }
  }
}

// One member's word can bring its entry into every log, and the log into every message.
Member decode(const wire::Member& message) {
  if (message.region().empty()) throw_malformed("a member has no name");
  if (message.region().size() > inter::kRegionNameBytesMax ||
      message.address().size() > kAddressBytesMax || !may_be_incarnation(message.incarnation()))
    throw_malformed("a member's name, address or incarnation is too long");
  return {.region = message.region(),
          .address = message.address(),
          .witness = message.witness(),
          .incarnation = message.incarnation()};
}

LogEntry decode(const wire::LogEntry& message) {
  LogEntry entry{.term = message.term(), .body = {}};
  if (message.has_record()) entry.body = decode(message.record());
  if (!message.has_membership()) return entry;
  Membership membership;
  for (const wire::Member& member : message.membership().members()) {
    const bool ascends =
        membership.members.empty() || membership.members.back().region < member.region();
    if (!ascends) throw_malformed("the members of a run are not in ascending order");
    membership.members.push_back(decode(member));
  }
  if (membership.members.empty()) throw_malformed("a run has no members");
  if (message.membership().has_origin()) {
    membership.origin = take(message.membership().origin());
  }
  entry.body = std::move(membership);
  return entry;
}

namespace {

void put(const VoteRequest& request, wire::RaftMessage* out) {
  wire::VoteRequest* body = out->mutable_vote_request();
  body->set_term(request.term);
  body->set_pre(request.pre);
  body->set_last_index(request.last_index);
  body->set_last_term(request.last_term);
}

void put(const VoteReply& reply, wire::RaftMessage* out) {
  wire::VoteReply* body = out->mutable_vote_reply();
  body->set_term(reply.term);
  body->set_pre(reply.pre);
  body->set_granted(reply.granted);
}

void put(const AppendEntries& append, wire::RaftMessage* out) {
  wire::AppendEntries* body = out->mutable_append_entries();
  body->set_term(append.term);
  body->set_previous_index(append.previous_index);
  body->set_previous_term(append.previous_term);
  for (const LogEntry& entry : append.entries) encode(entry, body->add_entries());
  body->set_commit(append.commit);
}

void put(const AppendReply& reply, wire::RaftMessage* out) {
  wire::AppendReply* body = out->mutable_append_reply();
  body->set_term(reply.term);
  body->set_accepted(reply.accepted);
  body->set_index(reply.index);
}

// A number that no run reaches would end all elections.
Term checked(Term term) {
  if (term > kTermMax) throw_malformed("a term is too large");
  return term;
}

VoteRequest take(const wire::VoteRequest& body) {
  return {.term = checked(body.term()),
          .pre = body.pre(),
          .last_index = body.last_index(),
          .last_term = body.last_term()};
}

VoteReply take(const wire::VoteReply& body) {
  return {.term = checked(body.term()), .pre = body.pre(), .granted = body.granted()};
}

// Nobody sends more than 64 in one message. Empty ones take two bytes there, and hundreds here.
constexpr int kEntriesMax = 4096;

AppendEntries take(const wire::AppendEntries& body) {
  if (body.entries_size() > kEntriesMax) throw_malformed("too many entries in one message");
  AppendEntries append{.term = checked(body.term()),
                       .previous_index = body.previous_index(),
                       .previous_term = body.previous_term(),
                       .entries = {},
                       .commit = body.commit()};
  for (const wire::LogEntry& entry : body.entries()) append.entries.push_back(decode(entry));
  return append;
}

AppendReply take(const wire::AppendReply& body) {
  return {.term = checked(body.term()), .accepted = body.accepted(), .index = body.index()};
}

}  // namespace

void encode(const RaftMessage& message, wire::RaftMessage* out) {
  out->set_incarnation(message.incarnation);
  std::visit([out](const auto& body) { put(body, out); }, message.body);
}

RaftMessage decode(const wire::RaftMessage& message) {
  if (!may_be_incarnation(message.incarnation())) throw_malformed("an incarnation is too long");
  RaftMessage decoded{.incarnation = message.incarnation(), .body = {}};
  switch (message.body_case()) {
    case wire::RaftMessage::kVoteRequest:
      decoded.body = take(message.vote_request());
      break;
    case wire::RaftMessage::kVoteReply:
      decoded.body = take(message.vote_reply());
      break;
    case wire::RaftMessage::kAppendEntries:
      decoded.body = take(message.append_entries());
      break;
    case wire::RaftMessage::kAppendReply:
      decoded.body = take(message.append_reply());
      break;
    case wire::RaftMessage::BODY_NOT_SET:
      throw_malformed("a message about the log says nothing");
  }
  return decoded;
}

}  // namespace causeway::diloco
