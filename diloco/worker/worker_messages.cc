#include "diloco/worker/worker_messages.h"

#include "diloco/log/wire.h"

namespace causeway::diloco {

using worker_wire::CoordinatorMessage;

namespace {

void encode_share(const DataShare& share, worker_wire::DataShare* out) {
  out->set_index(share.index);
  out->set_count(share.count);
  out->set_pass(share.pass);
  out->set_begin(share.begin);
}

}  // namespace

AttachRequest to_request(const worker_wire::Attach& message) {
  return {.socket = {},
          .region = message.region(),
          .rank = message.rank(),
          .world = message.world(),
          .version = message.version(),
          .state = decode_digest(message.state()),
          .has_lineage = message.has_lineage(),
          .run_id = message.run_id(),
          .contributed = message.contributed()};
}

CoordinatorMessage to_message(const Train& train) {
  CoordinatorMessage message;
  message.mutable_train()->set_round(train.round);
  message.mutable_train()->set_k(train.k);
  message.mutable_train()->set_data_cursor(train.data_cursor);
  message.mutable_train()->set_schedule_step(train.schedule_step);
  message.mutable_train()->set_ahead(train.ahead);
  encode_share(train.share, message.mutable_train()->mutable_share());
  return message;
}

CoordinatorMessage to_message(const Continue& order) {
  CoordinatorMessage message;
  message.mutable_continue_training()->set_round(order.round);
  message.mutable_continue_training()->set_k(order.k);
  message.mutable_continue_training()->set_data_cursor(order.data_cursor);
  message.mutable_continue_training()->set_schedule_step(order.schedule_step);
  encode_share(order.share, message.mutable_continue_training()->mutable_share());
  return message;
}

CoordinatorMessage refusal(const std::string& reason) {
  CoordinatorMessage message;
  message.mutable_refused()->set_reason(reason);
  return message;
}

CoordinatorMessage waiting(const std::string& what) {
  CoordinatorMessage message;
  message.mutable_waiting()->set_what(what);
  return message;
}

}  // namespace causeway::diloco
