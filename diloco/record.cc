#include "diloco/record.h"

#include <bit>
#include <cmath>

#include "diloco/error.h"
#include "diloco/wire.h"

namespace causeway::diloco {

void throw_malformed(const std::string& what) {
  throw std::system_error(make_error_code(Errc::malformed), what);
}

void encode(const Digest& digest, std::string* out) {
  out->assign(reinterpret_cast<const char*>(digest.data()), digest.size());
}

void encode(const inter::BlobId& blob, wire::BlobId* out) {
  encode(blob.hash, out->mutable_hash());
  out->set_size_bytes(blob.size_bytes);
}

void encode(const Contribution& contribution, wire::Contribution* out) {
  out->set_run_id(contribution.run_id);
  out->set_region(contribution.region);
  out->set_round(contribution.round);
  out->set_part(contribution.part);
  out->set_sits_out(contribution.sits_out);
  out->set_tokens(contribution.tokens);
  out->set_steps(contribution.steps);
  out->set_compute_s(contribution.compute_s);
  out->set_data_begin(contribution.data_begin);
  out->set_data_cursor(contribution.data_cursor);
  encode(contribution.state, out->mutable_state());
  out->set_delta_norm(contribution.delta_norm);
  out->set_error_norm(contribution.error_norm);
  encode(contribution.payload, out->mutable_payload());
}

void encode(const CommitRecord& record, wire::CommitRecord* out) {
  out->set_run_id(record.run_id);
  out->set_round(record.round);
  for (const Participant& participant : record.participants) {
    wire::Participant* entry = out->add_participants();
    entry->set_region(participant.region);
    entry->set_round(participant.round);
    entry->set_part(participant.part);
    entry->set_weight_bits(std::bit_cast<std::uint32_t>(participant.weight));
    entry->set_data_begin(participant.data_begin);
    entry->set_data_cursor(participant.data_cursor);
    entry->set_tokens(participant.tokens);
    encode(participant.payload, entry->mutable_payload());
  }
  encode(record.state, out->mutable_state());
  out->set_expired_before(record.expired_before);
  out->set_skip_momentum(record.skip_momentum);
  if (record.momentum) out->set_momentum_bits(std::bit_cast<std::uint32_t>(*record.momentum));
  out->set_next_k(record.next_k);
  out->set_next_grace_ms(record.next_grace_ms);
  for (const Standing& standing : record.standings) {
    wire::Standing* entry = out->add_standings();
    entry->set_region(standing.region);
    entry->set_liveness_bits(std::bit_cast<std::uint32_t>(standing.liveness));
    entry->set_next_k(standing.next_k);
  }
}

Digest decode_digest(const std::string& bytes) {
  Digest digest{};
  if (bytes.size() != digest.size()) {
    throw_malformed("a digest has " + std::to_string(bytes.size()) + " bytes instead of 32");
  }
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

inter::BlobId decode(const wire::BlobId& message) {
  return {.hash = decode_digest(message.hash()), .size_bytes = message.size_bytes()};
}

Contribution decode(const wire::Contribution& message) {
  Contribution contribution{.run_id = message.run_id(),
                            .region = message.region(),
                            .round = message.round(),
                            .part = message.part(),
                            .sits_out = message.sits_out(),
                            .tokens = message.tokens(),
                            .steps = message.steps(),
                            .compute_s = message.compute_s(),
                            .data_begin = message.data_begin(),
                            .data_cursor = message.data_cursor(),
                            .state = decode_digest(message.state()),
                            .delta_norm = message.delta_norm(),
                            .error_norm = message.error_norm(),
                            .payload = decode(message.payload())};
  if (contribution.region.empty()) throw_malformed("a contribution names no region");
  const auto is_norm = [](double norm) { return std::isfinite(norm) && norm >= 0; };
  if (!is_norm(contribution.delta_norm) || !is_norm(contribution.error_norm)) {
    throw_malformed("a contribution's norm is not a finite number at or above 0");
  }
  return contribution;
}

namespace {

Participant decode_participant(const wire::Participant& message) {
  const auto weight = std::bit_cast<float>(message.weight_bits());
  if (!std::isfinite(weight) || weight < 0) {
    throw_malformed("a commit record's weight is not a finite number at or above 0");
  }
  return {.region = message.region(),
          .round = message.round(),
          .part = message.part(),
          .weight = weight,
          .data_begin = message.data_begin(),
          .data_cursor = message.data_cursor(),
          .tokens = message.tokens(),
          .payload = decode(message.payload())};
}

std::optional<float> decode_momentum(const wire::CommitRecord& message) {
  if (!message.has_momentum_bits()) return std::nullopt;
  const auto momentum = std::bit_cast<float>(message.momentum_bits());
  if (!(momentum >= 0 && momentum <= 1)) {
    throw_malformed("a commit record's momentum is not between 0 and 1");
  }
  return momentum;
}

Standing decode_standing(const wire::Standing& message) {
  const auto liveness = std::bit_cast<float>(message.liveness_bits());
  if (!(liveness >= 0 && liveness <= 1)) {
    throw_malformed("a commit record's liveness is not between 0 and 1");
  }
  return {.region = message.region(), .liveness = liveness, .next_k = message.next_k()};
}

template <typename Wire>
Wire parse_wire(const std::string& bytes, const char* what) {
  Wire message;
  if (!message.ParseFromString(bytes)) throw_malformed(std::string(what) + " cannot be parsed");
  return message;
}

template <typename Wire, typename Value>
std::string serialize_as(const Value& value) {
  Wire message;
  encode(value, &message);
  return message.SerializeAsString();
}

}  // namespace

CommitRecord decode(const wire::CommitRecord& message) {
  CommitRecord record{.run_id = message.run_id(),
                      .round = message.round(),
                      .participants = {},
                      .state = decode_digest(message.state()),
                      .expired_before = message.expired_before(),
                      .skip_momentum = message.skip_momentum(),
                      .momentum = decode_momentum(message),
                      .next_k = message.next_k(),
                      .next_grace_ms = message.next_grace_ms()};
  for (const wire::Participant& entry : message.participants()) {
    Participant participant = decode_participant(entry);
    if (participant.region.empty() || (!record.participants.empty() &&
                                       key_of(record.participants.back()) >= key_of(participant))) {
      throw_malformed("a commit record's participants are not in ascending order");
    }
    if (participant.round > record.round) {
      throw_malformed("a commit record lists a contribution of a later round");
    }
    record.participants.push_back(std::move(participant));
  }
  for (const wire::Standing& entry : message.standings()) {
    Standing standing = decode_standing(entry);
    if (standing.region.empty() ||
        (!record.standings.empty() && record.standings.back().region >= standing.region)) {
      throw_malformed("a commit record's standings are not in ascending order");
    }
    record.standings.push_back(std::move(standing));
  }
  return record;
}

std::string serialize(const Contribution& contribution) {
  return serialize_as<wire::Contribution>(contribution);
}

std::string serialize(const CommitRecord& record) {
  return serialize_as<wire::CommitRecord>(record);
}

Contribution parse_contribution(const std::string& bytes) {
  return decode(parse_wire<wire::Contribution>(bytes, "a contribution"));
}

CommitRecord parse_commit_record(const std::string& bytes) {
  return decode(parse_wire<wire::CommitRecord>(bytes, "a commit record"));
}

}  // namespace causeway::diloco
