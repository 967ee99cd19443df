#include "diloco/coordinator/abstention.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/files/error.h"

namespace causeway::diloco {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kSoundFor{30};
constexpr std::chrono::milliseconds kFirstLook{100};

std::string why_abstaining(const CoordinatorContext& context, std::uint64_t wanted) {
  return "its storage fails (" + context.ending.storage_failure() +
         "): it no longer votes or contributes, while its worker trains on. Make room in " +
         context.options.directory.string() +
         (wanted > 0 ? fmt::format(" (the next round takes {} bytes)", wanted) : "") +
         ", or raise ulimit -n if it has too many open files, or mend the disk if that fails; it "
         "then goes on by itself";
}

}  // namespace

Abstention::Abstention(CoordinatorContext context, PeerLinks& links, WorkerSide& worker, Pace pace)
    : context_(std::move(context)),
      links_(links),
      worker_(worker),
      pace_(pace),
      wanted_(room_wanted()),
      why_(why_abstaining(context_, wanted_)) {}

Abstention::Pace Abstention::pace_after(steady_clock::duration without_failure) {
  Pace pace;
  if (without_failure >= kSoundFor) pace.look_first = kFirstLook;
  return pace;
}

asio::awaitable<void> Abstention::wait_out() {
  const std::string& region = context_.options.region;
  spdlog::error("{}: {}", region, why_);
  context_.driver.stop_clock();
  links_.cut("the storage of " + region +
             " fails: it takes no part in the run until that works again");
  context_.directory.spool().release_spares();
  co_await until_disk_works();
  spdlog::info("{}: its storage works again", region);
}

// One's own payload, and the most that is still to come of another one.
std::uint64_t Abstention::room_wanted() const {
  const RoundProtocol& protocol = context_.protocol();
  std::uint64_t own = worker_.intake().payload_bytes(), others = 0;
  if (protocol.contribution()) own = std::max(own, protocol.contribution()->payload.size_bytes);
  for (const inter::BlobId& blob : protocol.wanted())
    others = std::max(others, blob.size_bytes - context_.directory.spool().received_bytes(blob));
  return own + others;
}

// With less room than that, it would be back for a moment again and again, and call for
// elections. Not for ever: once it is back, what is not needed any more may leave the disk.
asio::awaitable<void> Abstention::until_disk_works() {
  const CoordinatorEnd& ending = context_.ending;
  asio::steady_timer timer(context_.executor);
  const auto since = steady_clock::now();
  auto looked_at = since;
  std::chrono::milliseconds look_after = pace_.look_first;
  bool open = false;
  while (!ending.outcome() && !ending.failure()) {
    if (!open) open = co_await reopens_to_workers();
    show();
    timer.expires_after(std::min(pace_.show_every, look_after));
    co_await timer.async_wait(asio::use_awaitable);
    if (steady_clock::now() < looked_at + look_after) continue;
    looked_at = steady_clock::now();
    look_after = std::min(2 * look_after, pace_.look_every);
    const bool try_anyway = looked_at >= since + pace_.try_anyway_after;
    if (open && context_.directory.takes_bytes(try_anyway ? 0 : wanted_)) break;
  }
}

// What they do meanwhile they hand over when all works again. Not if there is no descriptor for a
// socket either.
asio::awaitable<bool> Abstention::reopens_to_workers() {
  try {
    co_await worker_.reopen();
    co_return true;
  } catch (const std::system_error& error) {
    if (!is_storage_failure(error)) throw;
  }
  co_return false;
}

void Abstention::show() {
  try {
    const RegionStatus shown = context_.status();
    try {
      context_.directory.files().write(shown);
    } catch (const std::system_error&) {  // there may be no room for this either
      context_.directory.files().write_into_reserve(shown);
    }
  } catch (const std::system_error&) {  // the disk takes nothing at all
  }
}

}  // namespace causeway::diloco
