#include "apps/run/follow/follower.h"

#include <chrono>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "diloco/coordinator/peer_links.h"
#include "diloco/files/error.h"
#include "inter/base/error.h"
#include "inter/base/text.h"
#include "intra/base/error.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kNothingToDo{1};  // while nothing can be done

// Of the state that is kept; 0: there is none that can be read.
diloco::Round version_of(const fs::path& state_file) {
  diloco::Round version = 0;
  try {
    if (fs::exists(state_file)) intra::StateReader(state_file).read("version", version);
  } catch (const std::system_error&) {  // restore() says so
    return 0;
  }
  return version;
}

}  // namespace

Follower::Follower(asio::any_io_executor executor, const Config& config, FollowOptions options,
                   FollowReport& report)
    : FollowLoop(std::move(executor), config, std::move(options), report, kNothingToDo),
      run_(options_.directory, options_.trusted, options_.signatures, version_of(state_file())) {
  know_members();
}

// A state that was kept is used only if it is the one that the records name.
void Follower::restore() {
  if (!fs::exists(state_file())) return;
  try {
    diloco::Round version = 0;
    intra::StateReader(state_file()).read("version", version);
    if (const diloco::CommitRecord* const record = run_.record(version)) {
      state_ = std::make_unique<FollowedState>(config_, run_.run_id(), state_file(), version,
                                               record->state);
      run_.forget_before(version);
      spdlog::info("goes on from version {}", version);
    }
  } catch (const std::system_error& error) {
    if (error.code() != intra::Errc::bad_checkpoint) throw;
    spdlog::warn("{}; a snapshot of the run's is fetched instead", intra::message_of(error));
  }
}

// ---- What the run decided ----

// False: there was nothing that could be done.
asio::awaitable<bool> Follower::step(Link& link) {
  const bool behind = state_ && run_.record(state_->version()) != nullptr;
  const diloco::FollowerQuestion question{.first = run_.entries() + told_.size(), .wait = !behind};
  const diloco::FollowerAnswer answer = co_await link.ask(question);
  if (answer.run_id.empty()) co_return false;
  check_run(link, answer);
  snapshot_ = answer.snapshot;
  finished_ = answer.finished;
  // Whoever comes late to a long run needs few of its records.
  if (snapshot_ && !state_) run_.forget_long_before(snapshot_->version);
  const bool told = !answer.entries.empty();
  if (told) co_await take_entries(link, answer);
  const bool more = told_.size() > 0 || (told && run_.entries() < answer.known);
  if (more) co_return true;
  show();
  const bool advanced = co_await advance(link);
  // At the end no region waits before it answers.
  co_return told || advanced || !(behind || finished_);
}

void Follower::check_run(const Link& link, const diloco::FollowerAnswer& answer) {
  other_regions_.check_run(options_, run_.run_id(), link.region(), answer.run_id);
  if (answer.first == 0)
    other_regions_.check_settings(options_, config_, link.region(), answer.settings);
}

asio::awaitable<void> Follower::take_entries(Link& link, const diloco::FollowerAnswer& answer) {
  run_.add(told_, answer);
  if (!run_.are_to_be_taken(told_)) co_return;
  if (run_.are_expected(told_)) {
    run_.take_expected(std::exchange(told_, {}));
    co_return on_taken();
  }
  SignedLedger::Signatures signatures = run_.signers(told_, answer, regions_.context());
  co_await confirm(link.region(), signatures);
  if (!run_.enough(signatures) && !run_.are_all(told_)) {
    told_.hashes_alone = true;  // a follower has signatures of its last entry alone
    told_.entries = {};
    co_return;
  }
  if (!run_.enough(signatures)) {
    std::string signers;
    for (const auto& [region, head] : signatures) inter::append_item(signers, region);
    throw inter::LinkError(
        inter::Errc::bad_frame,
        "its newest entry is signed by " + (signers.empty() ? "nobody" : signers) + "; " +
            std::to_string(run_.needed()) + " of the configured regions must have signed it");
  }
  if (told_.hashes_alone) co_return run_.expect(std::exchange(told_, {}), std::move(signatures));
  run_.take(std::exchange(told_, {}), std::move(signatures));
  on_taken();
}

void Follower::on_taken() {
  if (options_.tell) options_.tell();
  know_members();
}

// Others say whether they have the same entries, until enough have.
asio::awaitable<void> Follower::confirm(const std::string& main,
                                        SignedLedger::Signatures& signatures) {
  const diloco::FollowerQuestion question{
      .first = run_.entries() + told_.size() - 1, .wait = true, .most = 1};
  for (const std::string& region : regions_.in_order(run_.trusted())) {
    if (run_.enough(signatures)) co_return;
    if (region == main || signatures.contains(region)) continue;
    Link* const link = co_await regions_.link(region);
    if (link == nullptr) continue;
    std::string failure;
    try {
      const diloco::FollowerAnswer answer = co_await link->ask(question);
      signatures.merge(run_.signers(told_, answer, regions_.context()));
    } catch (const inter::LinkError& error) {
      failure = error.reason();
    }
    if (!failure.empty()) regions_.drop(region, failure);
  }
}

void Follower::know_members() {
  std::vector<FollowedRegions::Address> addresses;
  for (const diloco::Member& member : run_.members().members) {
    const inter::Endpoint endpoint = diloco::endpoint_of(member);
    if (!endpoint.host.empty() && !member.witness) addresses.push_back({member.region, endpoint});
  }
  regions_.know(addresses);
}

}  // namespace causeway::run
