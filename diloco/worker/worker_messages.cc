#include "diloco/worker/worker_messages.h"

#include <string>

#include <fmt/format.h>

#include "diloco/log/wire.h"
#include "diloco/worker/stream/frame.h"

namespace causeway::diloco {

using worker_wire::CoordinatorMessage;

namespace {

// What Train and Continue have in common.
template <typename Order, typename WireOrder>
void encode_order(const Order& order, WireOrder* out) {
  out->set_round(order.round);
  out->set_k(order.k);
  out->set_data_cursor(order.data_cursor);
  out->set_schedule_step(order.schedule_step);
  out->mutable_share()->set_index(order.share.index);
  out->mutable_share()->set_count(order.share.count);
  out->mutable_share()->set_pass(order.share.pass);
  out->mutable_share()->set_begin(order.share.begin);
}

template <typename Order, typename WireOrder>
Order decode_order(const WireOrder& message) {
  const worker_wire::DataShare& share = message.share();
  if (share.count() > 0 && share.index() >= share.count()) {
    throw_malformed("the coordinator gave a share of the data that does not exist");
  }
  return {.round = message.round(),
          .k = message.k(),
          .data_cursor = message.data_cursor(),
          .schedule_step = message.schedule_step(),
          .share = {.index = share.index(),
                    .count = share.count(),
                    .pass = share.pass(),
                    .begin = share.begin()}};
}

DataDigest to_digest(const worker_wire::DataDigest& message) {
  DataDigest data{.sample = decode_digest(message.sample())};
  if (!message.whole().empty()) data.whole = decode_digest(message.whole());
  return data;
}

void put(const DataDigest& data, worker_wire::DataDigest* out) {
  encode(data.sample, out->mutable_sample());
  if (data.whole) encode(*data.whole, out->mutable_whole());
}

// Attach and DataRead have the same two fields.
template <typename Message>
DataDigests digests_in(const Message& message) {
  DataDigests data;
  if (message.has_data()) data.of_region = to_digest(message.data());
  if (message.has_common_data()) data.of_run = to_digest(message.common_data());
  return data;
}

template <typename Message>
void put_digests(const DataDigests& data, Message* out) {
  if (data.of_region) put(*data.of_region, out->mutable_data());
  if (data.of_run) put(*data.of_run, out->mutable_common_data());
}

}  // namespace

AttachRequest to_request(const worker_wire::Attach& message) {
  std::optional<DataDigest> trained_on;
  if (message.has_trained_on()) trained_on = to_digest(message.trained_on());
  return {.socket = {},
          .region = message.region(),
          .rank = message.rank(),
          .world = message.world(),
          .version = message.version(),
          .state = decode_digest(message.state()),
          .has_lineage = message.has_lineage(),
          .run_id = message.run_id(),
          .contributed = message.contributed(),
          .open_work = message.open_work(),
          .settings = message.settings(),
          .data = digests_in(message),
          .trained_on = trained_on,
          .tensors = parse_tensors(message.tensors()),
          .save_rounds = message.save_rounds()};
}

DataDigests to_digests(const worker_wire::DataRead& message) {
  return digests_in(message);
}

void put(const DataDigests& data, const std::optional<DataDigest>& trained_on,
         worker_wire::Attach* out) {
  put_digests(data, out);
  if (trained_on) put(*trained_on, out->mutable_trained_on());
}

void put(const DataDigests& data, worker_wire::DataRead* out) {
  put_digests(data, out);
}

CoordinatorMessage to_message(const Train& order) {
  CoordinatorMessage message;
  encode_order(order, message.mutable_train());
  message.mutable_train()->set_ahead(order.ahead);
  return message;
}

CoordinatorMessage to_message(const Continue& order) {
  CoordinatorMessage message;
  encode_order(order, message.mutable_continue_training());
  return message;
}

Train to_order(const worker_wire::Train& message) {
  auto order = decode_order<Train>(message);
  order.ahead = message.ahead();
  return order;
}

Continue to_order(const worker_wire::Continue& message) {
  return decode_order<Continue>(message);
}

CoordinatorMessage refusal(const std::string& reason, Errc kind) {
  CoordinatorMessage message;
  message.mutable_refused()->set_reason(reason);
  message.mutable_refused()->set_configuration(kind == Errc::config_mismatch);
  message.mutable_refused()->set_lineage(kind == Errc::lineage);
  message.mutable_refused()->set_left_out(kind == Errc::left_out);
  return message;
}

Errc kind_of(const worker_wire::Refused& refused) {
  if (refused.lineage()) return Errc::lineage;
  if (refused.configuration()) return Errc::config_mismatch;
  return refused.left_out() ? Errc::left_out : Errc::malformed;
}

CoordinatorMessage refusal_of_protocol(std::uint32_t protocol) {
  const std::string than = protocol < kWorkerProtocol ? "older" : "newer";
  return refusal(
      fmt::format("this worker is {} than its coordinator: it speaks worker protocol {}, the "
                  "coordinator {}. Run both from the same version of Causeway",
                  than, protocol, kWorkerProtocol));
}

CoordinatorMessage waiting(const std::string& what) {
  CoordinatorMessage message;
  message.mutable_waiting()->set_what(what);
  return message;
}

}  // namespace causeway::diloco
