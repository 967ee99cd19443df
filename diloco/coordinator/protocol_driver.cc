#include "diloco/coordinator/protocol_driver.h"

#include <chrono>
#include <optional>
#include <utility>

#include "diloco/files/error.h"
#include "inter/blob/spool.h"

namespace causeway::diloco {

void CoordinatorEnd::finish(RunOutcome outcome) {
  if (!outcome_) outcome_ = std::move(outcome);
  changed_.notify();
}

void CoordinatorEnd::begin_again() {
  begins_again_ = true;
  changed_.notify();
}

void CoordinatorEnd::fail(std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& error) {
    if (!is_storage_failure(error)) return fail_for_good(failure);
    if (storage_failure_.empty()) storage_failure_ = error.what();
    changed_.notify();
  } catch (...) {
    fail_for_good(failure);
  }
}

void CoordinatorEnd::fail_for_good(std::exception_ptr failure) {
  if (!failure_) failure_ = std::move(failure);
  changed_.notify();
}

namespace {

using std::chrono::steady_clock;

Time now() {
  return std::chrono::duration_cast<Time>(steady_clock::now().time_since_epoch());
}

}  // namespace

double system_wall_clock() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_1970).count();
}

ProtocolDriver::ProtocolDriver(const asio::any_io_executor& executor, CoordinatorEnd& ending,
                               const inter::Spool& spool, ProtocolOptions options,
                               PersistentState state, CarryOut carry_out, WallClock wall_clock)
    : ending_(ending),
      spool_(spool),
      protocol_(std::move(options), std::move(state)),
      carry_out_(std::move(carry_out)),
      wall_clock_(std::move(wall_clock)),
      tick_(executor) {}

void ProtocolDriver::handle(const Event& event) {
  if (!ending_.going_on()) return;
  ending_.guard([&] {
    protocol_.set_room(spool_.free_bytes(), spool_.begun());
    protocol_.set_wall_clock(wall_clock_());
    for (const Action& action : protocol_.handle(event, now())) carry_out_(action);
    arm_tick();
  });
}

void ProtocolDriver::arm_tick() {
  const std::optional<Time> next = protocol_.next_deadline();
  if (!next || ending_.outcome()) {
    tick_.cancel();
    return;
  }
  tick_.expires_at(steady_clock::time_point(*next));
  tick_.async_wait([this](const std::error_code& error) {
    if (!error && !ending_.closing()) handle(Tick{});
  });
}

void ProtocolDriver::report_progress() {
  for (const inter::BlobId& blob : protocol_.wanted()) {
    const std::uint64_t received_bytes = spool_.received_bytes(blob);
    if (received_bytes > 0 && !spool_.has(blob)) handle(BlobProgress{blob, received_bytes});
  }
}

std::string ProtocolDriver::waiting_for() const {
  return protocol_.waiting_for(now());
}

}  // namespace causeway::diloco
