#include "diloco/worker/worker_door.h"

#include <chrono>
#include <cstddef>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "inter/mesh/resolve.h"

namespace causeway::diloco {
namespace {

constexpr std::chrono::milliseconds kResolveBind{10'000};
constexpr std::size_t kHandshakesMax = 64;  // a region has few workers

}  // namespace

WorkerDoor::WorkerDoor(asio::any_io_executor executor, std::string region,
                       const inter::Endpoint& bind, const inter::Credentials& credentials,
                       Admit admit)
    : region_(std::move(region)),
      admit_(std::move(admit)),
      door_(std::move(executor),
            {.owner = region_, .credentials = credentials, .waiting_max = kHandshakesMax},
            [this](inter::TlsDoor::Guest guest) { on_guest(std::move(guest)); }) {
  try {
    door_.listen(inter::listening_address(bind, kResolveBind));
  } catch (const std::system_error& error) {
    inter::throw_cannot_listen(bind, error.code());
  }
}

void WorkerDoor::on_guest(inter::TlsDoor::Guest guest) {
  std::string objection;
  std::error_code gone;
  const auto remote = guest.socket.remote_endpoint(gone);
  if (guest.name == region_) {
    if (!gone) door_.expect(remote.address());
  } else {
    objection = "the certificate is for " + guest.name + "; workers of " + region_ + " attach here";
    if (const auto more = refusals_.note(objection)) {
      spdlog::warn("{}: refused a worker from {}: {}{}", region_, inter::to_text(remote), objection,
                   *more);
    }
  }
  auto stream =
      std::make_unique<WorkerTlsStream>(guest.socket.native_handle(), std::move(guest.stream));
  admit_(Socket(std::move(guest.socket)), std::move(stream), objection);
}

}  // namespace causeway::diloco
