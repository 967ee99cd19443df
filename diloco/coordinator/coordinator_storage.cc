#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include <spdlog/spdlog.h>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/coordinator/coordinator_core.h"
#include "diloco/files/file_io.h"
#include "inter/base/error.h"

namespace causeway::diloco {
namespace {

constexpr std::chrono::milliseconds kLook{500};
constexpr std::chrono::seconds kLookAtDisk{2};
constexpr std::size_t kProbeBytes = 1U << 20;

// Whether the directory takes a megabyte.
bool takes_bytes(const std::filesystem::path& directory) {
  const std::filesystem::path probe = directory / "probe";
  bool taken = false;
  try {
    replace_file(probe, std::string(kProbeBytes, 'x'), Durability::on_disk);
    taken = true;
  } catch (const std::system_error&) {
  }
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
  return taken;
}

}  // namespace

bool is_storage_failure(const std::system_error& error) {
  if (error.code().category() != std::generic_category() &&
      error.code().category() != std::system_category()) {
    return false;
  }
  constexpr std::array kOfDisks{ENOSPC, EDQUOT, EFBIG, EIO, EROFS};
  return std::ranges::find(kOfDisks, error.code().value()) != kOfDisks.end();
}

// Out of the run until the disk works: what is not on disk must not be promised. The worker keeps
// its numbers in memory and does not need us for inner steps.
asio::awaitable<void> Coordinator::Implementation::abstain() {
  const std::string message =
      "its storage fails (" + storage_failure_ +
      "): it no longer votes or contributes, while its worker trains on. Make room in " +
      options_.directory.string() + "; it then goes on by itself";
  spdlog::error("{}: {}", options_.region, message);
  tick_.cancel();
  mesh_->set_peers({});
  co_await workers_->stop();  // it may wait for something that will not come
  workers_.reset();
  open_workers();
  if (spool_) spool_->release_spares();
  asio::steady_timer timer(executor_);
  auto looked_at = std::chrono::steady_clock::now();
  while (!outcome_ && !failure_) {
    try {
      CoordinatorStatus shown = status();
      shown.waiting_for = message;
      files_->write(shown);
    } catch (const std::system_error&) {  // there may be no room for this either
    }
    timer.expires_after(kLook);
    co_await timer.async_wait(asio::use_awaitable);
    if (std::chrono::steady_clock::now() < looked_at + kLookAtDisk) continue;
    looked_at = std::chrono::steady_clock::now();
    if (takes_bytes(options_.directory)) break;
  }
  spdlog::info("{}: its storage works again", options_.region);
}

// ---- A full spool ----

// The disk works, so the region stays in the run: what it agrees on lets go of older payloads, and
// that makes room. Some of them only when the worker has applied what was decided, so the worker is
// not held up: it keeps its contribution and asks what to do. The answer is the same round once
// more as soon as there is room, or the round's outcome.
void Coordinator::Implementation::wait_for_room(const Contribution& contribution,
                                                std::uint64_t size_bytes) {
  waits_for_room_ = {.contribution = contribution, .size_bytes = size_bytes};
  spdlog::warn("{}: waiting for {}", options_.region, room_sentence());
  workers_->not_stored();
}

std::string Coordinator::Implementation::room_sentence() const {
  return "room in its spool for the contribution to round " +
         std::to_string(waits_for_room_->contribution.round) + ": " +
         std::to_string(waits_for_room_->size_bytes) + " bytes, and " +
         std::to_string(spool_->free_bytes()) + " of " + std::to_string(spool_->capacity_bytes()) +
         " are free; if this does not pass, set a larger sync.spool_gib and start this coordinator "
         "again";
}

void Coordinator::Implementation::look_for_room() {
  if (!waits_for_room_) return;
  const Round round = waits_for_room_->contribution.round;
  if (round < protocol_->version()) {
    spdlog::warn(
        "{}: its spool had no room for the contribution to round {} before that round was "
        "decided, so it sat the round out",
        options_.region, round);
    // Its samples were used all the same.
    Contribution sat_out = waits_for_room_->contribution;
    sat_out.sits_out = true;
    sat_out.payload = {};
    handle(WorkerContributed{std::move(sat_out)});
    return end_wait_for_room();
  }
  if (waits_for_room_->size_bytes > spool_->free_bytes()) return;
  spdlog::info("{}: its spool has room again", options_.region);
  end_wait_for_room();
}

void Coordinator::Implementation::end_wait_for_room() {
  const bool worker_asks = waits_for_room_->worker_asks;
  waits_for_room_.reset();
  if (worker_asks) handle(WorkerReady{});
}

}  // namespace causeway::diloco
