#include "diloco/follow/follow_messages.h"

#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/log/wire.h"
#include "inter/base/wire.h"

namespace causeway::diloco {
namespace {

constexpr int kHeadsMax = 64, kWeightsMax = 64;
constexpr int kAnswerEntriesMax = 1 << 16;  // each takes some 40 of an answer's kAnswerBytes

template <typename Message>
Message parsed(const std::string& bytes, const char* what) {
  Message message;
  if (!message.ParseFromString(bytes)) {
    throw_malformed(std::string(what) + " cannot be parsed");
  }
  return message;
}

void put_head(const SignedHead& head, wire::SignedHead* out) {
  out->set_region(head.region);
  out->set_certificate(head.certificate);
  out->set_entries(head.entries);
  out->set_signature(head.signature);
}

SignedHead take_head(const wire::SignedHead& message) {
  return {.region = message.region(),
          .certificate = message.certificate(),
          .entries = message.entries(),
          .signature = message.signature()};
}

void put_weights(const SignedWeights& weights, wire::SignedWeights* out) {
  out->set_version(weights.version);
  encode(weights.state, out->mutable_state());
  encode(weights.image, out->mutable_image());
  out->set_signature(weights.signature);
}

SignedWeights take_weights(const wire::SignedWeights& message) {
  return {.version = message.version(),
          .state = decode_digest(message.state()),
          .image = decode(message.image()),
          .signature = message.signature()};
}

}  // namespace

std::string signed_content(const std::string& run_id, const SignedWeights& weights) {
  wire::BlobId image;
  encode(weights.image, &image);
  std::string content = "causeway weights " + run_id + " ";
  content += inter::little_endian_text(weights.version);
  content.append(reinterpret_cast<const char*>(weights.state.data()), weights.state.size());
  content += image.hash() + inter::little_endian_text(weights.image.size_bytes);
  return content;
}

std::string heads_bytes(const std::vector<SignedHead>& heads) {
  wire::FollowerAnswer message;
  for (const SignedHead& head : heads) put_head(head, message.add_heads());
  return with_checksum(message.SerializeAsString());
}

std::vector<SignedHead> read_heads(const std::filesystem::path& ledger_directory) {
  const auto content = without_checksum(read_file(ledger_directory / "heads").value_or(""));
  wire::FollowerAnswer message;
  std::vector<SignedHead> heads;
  if (!content || !message.ParseFromString(*content)) return heads;
  for (const wire::SignedHead& head : message.heads()) heads.push_back(take_head(head));
  return heads;
}

std::string serialize(const FollowerQuestion& question) {
  wire::FollowerQuestion message;
  message.set_first(question.first);
  message.set_wait(question.wait);
  message.set_most(question.most);
  message.set_weights(question.weights);
  if (question.held) encode(*question.held, message.mutable_held());
  return message.SerializeAsString();
}

FollowerQuestion parse_question(const std::string& bytes) {
  const auto message = parsed<wire::FollowerQuestion>(bytes, "a follower's question");
  FollowerQuestion question{.first = message.first(),
                            .wait = message.wait(),
                            .most = message.most(),
                            .weights = message.weights()};
  if (message.has_held()) question.held = decode(message.held());
  return question;
}

std::string serialize(const FollowerAnswer& answer) {
  wire::FollowerAnswer message;
  message.set_run_id(answer.run_id);
  message.set_first(answer.first);
  for (const LogEntry& entry : answer.entries) message.add_entries(content_of(entry));
  message.set_known(answer.known);
  for (const SignedHead& head : answer.heads) put_head(head, message.add_heads());
  if (answer.snapshot) encode(*answer.snapshot, message.mutable_snapshot());
  if (answer.finished) {
    message.mutable_finished()->set_version(answer.finished->version);
    encode(answer.finished->state, message.mutable_finished()->mutable_state());
  }
  message.set_settings(answer.settings);
  for (const SignedWeights& weights : answer.weights) put_weights(weights, message.add_weights());
  message.set_certificate(answer.certificate);
  if (answer.patch) encode(*answer.patch, message.mutable_patch());
  return message.SerializeAsString();
}

FollowerAnswer parse_answer(const std::string& bytes) {
  const auto message = parsed<wire::FollowerAnswer>(bytes, "an answer to a follower");
  if (message.entries_size() > kAnswerEntriesMax)
    throw_malformed("an answer with too many entries");
  if (message.heads_size() > kHeadsMax) throw_malformed("an answer with too many signatures");
  if (message.weights_size() > kWeightsMax) throw_malformed("an answer with too many weights");
  FollowerAnswer answer{.run_id = message.run_id(),
                        .first = message.first(),
                        .known = message.known(),
                        .settings = message.settings(),
                        .certificate = message.certificate()};
  for (const std::string& entry : message.entries())
    answer.entries.push_back(decode(parsed<wire::LogEntry>(entry, "an entry")));
  for (const wire::SignedHead& head : message.heads()) answer.heads.push_back(take_head(head));
  for (const wire::SignedWeights& weights : message.weights())
    answer.weights.push_back(take_weights(weights));
  if (message.has_patch()) answer.patch = decode(message.patch());
  if (message.has_snapshot()) answer.snapshot = decode(message.snapshot());
  if (message.has_finished()) {
    answer.finished = {message.finished().version(), decode_digest(message.finished().state())};
  }
  return answer;
}

}  // namespace causeway::diloco
