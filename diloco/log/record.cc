#include "diloco/log/record.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "diloco/files/error.h"
#include "diloco/log/wire.h"
#include "inter/base/hash_tree.h"

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
  out->set_exchange_s(contribution.exchange_s);
  out->set_overhead_s(contribution.overhead_s);
  if (contribution.held_out_loss) out->set_held_out_loss(*contribution.held_out_loss);
  out->set_egress_cost(contribution.egress_cost);
  if (contribution.proof) encode(*contribution.proof, out->mutable_proof());
  for (const inter::BlobId& shard : contribution.shards) encode(shard, out->add_shards());
  if (contribution.whole) encode(*contribution.whole, out->mutable_whole());
}

namespace {

void put(const RoundMeasure& measured, wire::RoundMeasure* out) {
  out->set_step_s(measured.step_s);
  out->set_overhead_s(measured.overhead_s);
  out->set_exchange_s(measured.exchange_s);
  if (measured.held_out_loss) out->set_held_out_loss(*measured.held_out_loss);
}

void put(const Participant& participant, wire::Participant* out) {
  out->set_region(participant.region);
  out->set_round(participant.round);
  out->set_part(participant.part);
  out->set_weight_bits(std::bit_cast<std::uint32_t>(participant.weight));
  out->set_data_begin(participant.data_begin);
  out->set_data_cursor(participant.data_cursor);
  out->set_tokens(participant.tokens);
  encode(participant.payload, out->mutable_payload());
  if (participant.proof) encode(*participant.proof, out->mutable_proof());
  if (participant.whole) encode(*participant.whole, out->mutable_whole());
}

}  // namespace

std::vector<inter::BlobId> blobs_of(const Contribution& contribution) {
  if (contribution.sits_out) return {};
  if (contribution.shards.empty()) return {contribution.payload};
  return contribution.shards;
}

inter::BlobId whole_of(std::span<const inter::BlobId> shards) {
  std::vector<inter::Sha256Hash> hashes;
  inter::BlobId whole;
  for (const inter::BlobId& shard : shards) {
    hashes.push_back(shard.hash);
    whole.size_bytes += shard.size_bytes;
  }
  whole.hash = inter::tree_root(std::move(hashes));
  return whole;
}

std::vector<inter::BlobId> applied_blobs(const CommitRecord& record) {
  if (!record.sums.empty()) return record.sums;
  std::vector<inter::BlobId> payloads;
  for (const Participant& one : record.participants) payloads.push_back(one.payload);
  return payloads;
}

Participant participant_of(const Contribution& contribution, float weight) {
  return {.region = contribution.region,
          .round = contribution.round,
          .part = contribution.part,
          .weight = weight,
          .data_begin = contribution.data_begin,
          .data_cursor = contribution.data_cursor,
          .tokens = contribution.tokens,
          .payload = contribution.payload,
          .proof = contribution.proof,
          .whole = contribution.whole};
}

void encode(const CommitRecord& record, wire::CommitRecord* out) {
  out->set_run_id(record.run_id);
  out->set_round(record.round);
  for (const Participant& one : record.participants) put(one, out->add_participants());
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
  if (record.measured) put(*record.measured, out->mutable_measured());
  if (record.k_decision) encode(*record.k_decision, out->mutable_k_decision());
  out->set_decided_unix_s(record.decided_unix_s);
  for (const EgressCost& egress : record.egress) {
    wire::EgressCost* entry = out->add_egress();
    entry->set_region(egress.region);
    entry->set_cost(egress.cost);
  }
  for (const Participant& one : record.withdrawn) put(one, out->add_withdrawn());
  out->set_revision(record.revision);
  out->set_next_sharded(record.next_sharded);
  for (const inter::BlobId& sum : record.sums) encode(sum, out->add_sums());
}

void check_finite(std::initializer_list<double> values, const std::string& what) {
  for (const double value : values) {
    if (!std::isfinite(value)) throw_malformed(what + " is not a finite number");
  }
}

void check_measured(std::initializer_list<double> values, const std::string& what) {
  check_finite(values, what);
  for (const double value : values) {
    if (value < 0) throw_malformed(what + " is below 0");
  }
}

Digest decode_digest(const std::string& bytes) {
  Digest digest{};
  if (bytes.size() != digest.size()) {
    throw_malformed(fmt::format("a digest has {} bytes instead of 32", bytes.size()));
  }
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

inter::BlobId decode(const wire::BlobId& message) {
  if (message.size_bytes() > inter::kBlobBytesMax)
    throw_malformed("a blob of more than 2^40 bytes");
  return {.hash = decode_digest(message.hash()), .size_bytes = message.size_bytes()};
}

namespace {

// Of all regions together it must stay a number.
void check_cost(double cost) {
  constexpr double kCostMax = 1e15;
  check_measured({cost}, "a region's cost");
  if (cost > kCostMax) throw_malformed("a region's cost is above 10^15");
}

std::optional<Digest> decode_optional(const std::string& bytes) {
  if (bytes.empty()) return std::nullopt;
  return decode_digest(bytes);
}

template <typename Blobs>
std::vector<inter::BlobId> decode_shards(const Blobs& blobs) {
  if (static_cast<std::size_t>(blobs.size()) > kShardsMax)
    throw_malformed(fmt::format("more than {} shards", kShardsMax));
  std::vector<inter::BlobId> shards;
  for (const wire::BlobId& blob : blobs) {
    shards.push_back(decode(blob));
    // Everybody would have all of it.
    if (shards.back().size_bytes == 0) throw_malformed("a shard without bytes");
  }
  return shards;
}

template <typename Wire>
std::optional<double> decode_held_out_loss(const Wire& message) {
  if (!message.has_held_out_loss()) return std::nullopt;
  check_finite({message.held_out_loss()}, "a held-out loss");
  return message.held_out_loss();
}

}  // namespace

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
                            .exchange_s = message.exchange_s(),
                            .overhead_s = message.overhead_s(),
                            .held_out_loss = decode_held_out_loss(message),
                            .egress_cost = message.egress_cost(),
                            .proof = decode_optional(message.proof()),
                            .payload = decode(message.payload())};
  if (contribution.region.empty()) throw_malformed("a contribution names no region");
  check_measured({contribution.delta_norm, contribution.error_norm}, "a contribution's norm");
  check_measured({contribution.compute_s, contribution.exchange_s, contribution.overhead_s},
                 "a contribution's time");
  check_cost(contribution.egress_cost);
  contribution.shards = decode_shards(message.shards());
  contribution.whole = decode_optional(message.whole());
  const bool named = contribution.shards.empty() || contribution.sits_out ||
                     whole_of(contribution.shards) == contribution.payload;
  if (!named) throw_malformed("a contribution's shards are not those that its payload names");
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
          .payload = decode(message.payload()),
          .proof = decode_optional(message.proof()),
          .whole = decode_optional(message.whole())};
}

// Of a record of `round`.
template <typename Entries>
std::vector<Participant> decode_participants(const Entries& entries, Round round) {
  std::vector<Participant> participants;
  for (const wire::Participant& entry : entries) {
    Participant participant = decode_participant(entry);
    const bool ascends = participants.empty() || key_of(participants.back()) < key_of(participant);
    if (participant.region.empty() || !ascends) {
      throw_malformed("a commit record's participants are not in ascending order");
    }
    if (participant.round > round) {
      throw_malformed("a commit record lists a contribution of a later round");
    }
    participants.push_back(std::move(participant));
  }
  return participants;
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

std::optional<RoundMeasure> decode_measure(const wire::CommitRecord& message) {
  if (!message.has_measured()) return std::nullopt;
  const wire::RoundMeasure& from = message.measured();
  check_measured({from.step_s(), from.overhead_s(), from.exchange_s()}, "a measured time");
  return RoundMeasure{.step_s = from.step_s(),
                      .overhead_s = from.overhead_s(),
                      .exchange_s = from.exchange_s(),
                      .held_out_loss = decode_held_out_loss(from)};
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
                      .next_grace_ms = message.next_grace_ms(),
                      .standings = {},
                      .measured = decode_measure(message),
                      .k_decision = {},
                      .decided_unix_s = message.decided_unix_s()};
  if (message.has_k_decision()) record.k_decision = decode(message.k_decision());
  check_measured({record.decided_unix_s}, "a commit record's time");
  record.participants = decode_participants(message.participants(), message.round());
  record.withdrawn = decode_participants(message.withdrawn(), message.round());
  record.revision = message.revision();
  record.next_sharded = message.next_sharded();
  record.sums = decode_shards(message.sums());
  for (const wire::Standing& entry : message.standings()) {
    Standing standing = decode_standing(entry);
    if (standing.region.empty() ||
        (!record.standings.empty() && record.standings.back().region >= standing.region)) {
      throw_malformed("a commit record's standings are not in ascending order");
    }
    record.standings.push_back(std::move(standing));
  }
  for (const wire::EgressCost& entry : message.egress()) {
    check_cost(entry.cost());
    if (entry.region().empty() ||
        (!record.egress.empty() && record.egress.back().region >= entry.region())) {
      throw_malformed("a commit record's costs are not in ascending order");
    }
    record.egress.push_back({.region = entry.region(), .cost = entry.cost()});
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
