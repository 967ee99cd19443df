// Follower: the run's state, from one record to the next, and what is published of it.
#include <fcntl.h>

#include <algorithm>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "apps/run/follow/follower.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/files/sealed_bytes.h"
#include "inter/base/error.h"
#include "inter/base/text.h"
#include "intra/base/error.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

diloco::MappedBytes mapped(const fs::path& file, std::uint64_t size) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) diloco::throw_errno("open", file);
  return {descriptor, size};
}

}  // namespace

// ---- The state ----

// As far as the records lead. False: nowhere.
asio::awaitable<bool> Follower::advance(Link& link) {
  drop_what_is_void();
  if (!state_) co_await begin(link);
  bool moved = false;
  while (state_) {
    const diloco::CommitRecord* const record = run_.record(state_->version());
    if (record == nullptr) break;
    check_digest(*record);
    const bool taken = co_await take_round(link, *record);
    moved = moved || taken;
    if (!taken && state_) break;
    if (!state_) co_await begin(link);
    show();
  }
  check_end(link.region());
  publish_if_due();
  co_return moved;
}

// The run went back to an earlier round, whose payloads nobody had any more.
void Follower::drop_what_is_void() {
  const std::optional<diloco::Round> round = run_.take_back();
  if (!round || !state_ || state_->version() <= *round) return;
  spdlog::warn("the run took round {} back: version {} is void, and a snapshot is fetched", *round,
               state_->version());
  state_.reset();
  fs::remove(state_file());
}

asio::awaitable<void> Follower::begin(Link& link) {
  if (!snapshot_) co_return;
  const diloco::Snapshot snapshot = *snapshot_;
  const bool agreed = co_await is_agreed(link, snapshot);
  if (!agreed) co_return;
  spdlog::info("fetches the state of version {}, {} MB", snapshot.version,
               snapshot.blob.size_bytes / 1'000'000);
  const bool here = co_await regions_.fetch(link, snapshot.blob, spool_);
  if (!here) co_return;
  try {
    state_ = std::make_unique<FollowedState>(config_, run_.run_id(), spool_.path(snapshot.blob),
                                             snapshot.version, snapshot.state);
  } catch (const std::system_error& error) {
    if (error.code() != intra::Errc::bad_checkpoint) throw;
    spool_.remove(snapshot.blob);
    throw inter::LinkError(inter::Errc::bad_frame, intra::message_of(error));
  }
  computed_ = false;
  save();
  publish_if_due();
}

// The records name a snapshot's state. What they do not name, enough regions must say: the state
// after the last round, and the tensors of a model that is not configured here.
asio::awaitable<bool> Follower::is_agreed(Link& link, diloco::Snapshot snapshot) {
  const diloco::CommitRecord* const record = run_.record(snapshot.version);
  if (record != nullptr && record->state != snapshot.state) co_return false;
  if (record != nullptr && config_.built_in_trainer()) co_return true;
  std::optional<diloco::Applied> end;
  if (record == nullptr) end = {snapshot.version, snapshot.state};
  if (end && finished_ != end) co_return false;
  const std::size_t others = co_await count_that_say(link, snapshot, end);
  co_return 1 + others >= run_.needed();
}

// Regions beside that of `link`. `end`: if it is what the run ended with, too.
asio::awaitable<std::size_t> Follower::count_that_say(Link& link, diloco::Snapshot snapshot,
                                                      std::optional<diloco::Applied> end) {
  const diloco::FollowerQuestion question{.first = run_.entries(), .wait = false};
  std::size_t same = 0;
  for (const std::string& region : regions_.in_order(run_.trusted())) {
    if (1 + same >= run_.needed()) break;
    if (region == link.region()) continue;
    Link* const other = co_await regions_.link(region);
    if (other == nullptr) continue;
    std::string failure;
    try {
      const diloco::FollowerAnswer answer = co_await other->ask(question);
      const bool ended = !end || answer.finished == end;
      if (answer.run_id == run_.run_id() && answer.snapshot == snapshot && ended) ++same;
    } catch (const inter::LinkError& error) {
      failure = error.reason();
    }
    if (!failure.empty()) regions_.drop(region, failure);
  }
  co_return same;
}

// False: nobody has all of its payloads any more, and a newer snapshot takes its place.
asio::awaitable<bool> Follower::take_round(Link& link, const diloco::CommitRecord& record) {
  std::vector<diloco::MappedBytes> payloads;
  std::vector<std::span<const std::byte>> bytes;
  for (const inter::BlobId& blob : diloco::applied_blobs(record)) {
    const bool here = co_await regions_.fetch(link, blob, spool_);
    if (!here) {
      if (snapshot_ && snapshot_->version > state_->version()) state_.reset();
      co_return false;
    }
    payloads.push_back(mapped(spool_.path(blob), blob.size_bytes));
    bytes.push_back(payloads.back().bytes());
  }
  state_->apply(record, bytes);
  computed_ = true;
  co_return true;
}

// The record of a round names the state that it begins with.
void Follower::check_digest(const diloco::CommitRecord& record) {
  if (state_->digest() != record.state) {
    throw std::system_error(
        make_error_code(diloco::Errc::lineage),
        "the state of version " + std::to_string(state_->version()) +
            " that the payloads give here (" + diloco::to_hex(state_->digest()).substr(0, 16) +
            ") is not the run's (" + diloco::to_hex(record.state).substr(0, 16) +
            "): the outer.* and sync.* settings here are not the run's, or this machine computes "
            "wrongly. `causeway replay` tells which tensor differs; to follow anew, remove " +
            options_.directory.string());
  }
  proven_ = proven_ || computed_;
  const std::uint32_t every = std::max<std::uint32_t>(config_.train.checkpoint_rounds, 1);
  if (computed_ && state_->version() % every == 0) save();
}

void Follower::save() {
  state_->save(state_file());
  std::optional<diloco::Snapshot> offered;
  if (options_.tell) {
    const std::uint64_t size = fs::file_size(state_file());
    const inter::BlobId blob = spool_.put(mapped(state_file(), size).bytes());
    offered = {state_->version(), state_->digest(), blob};
    run_.offer(*offered);
  }
  run_.forget_before(state_->version());
  remove_old_payloads(offered);
  if (options_.tell) options_.tell();
}

void Follower::remove_old_payloads(const std::optional<diloco::Snapshot>& offered) {
  std::set<inter::BlobId> listed;
  if (offered) listed.insert(offered->blob);
  for (diloco::Round round = state_->version(); round < run_.rounds(); ++round) {
    if (const diloco::CommitRecord* const record = run_.record(round))
      for (const inter::BlobId& blob : diloco::applied_blobs(*record)) listed.insert(blob);
  }
  for (const inter::BlobId& blob : spool_.complete())
    if (!listed.contains(blob)) spool_.remove(blob);
  spool_.release_spares();
}

// ---- What servers load ----

nlohmann::ordered_json Follower::facts() const {
  nlohmann::ordered_json facts{{"run", run_.run_id()},
                               {"version", state_->version()},
                               {"digest", diloco::to_hex(state_->digest())},
                               {"final", over_},
                               {"dtype", options_.dtype()},
                               {"entry", run_.entries()},
                               {"entry_hash", diloco::to_hex(run_.head())},
                               {"signatures", nlohmann::ordered_json::object()}};
  for (const auto& [region, head] : run_.signatures()) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(head.signature.data());
    facts["signatures"][region] = inter::hex({bytes, head.signature.size()});
  }
  return facts;
}

bool Follower::is_published_already() const {
  const nlohmann::ordered_json there = report_.look().published;
  return !there.is_null() && there.value("digest", "") == diloco::to_hex(state_->digest()) &&
         there.value("run", "") == run_.run_id() && there.value("dtype", "") == options_.dtype();
}

// What no record names yet is published if this program was right before.
void Follower::publish_if_due() {
  if (!state_ || (computed_ && !proven_)) return;
  nlohmann::ordered_json there = report_.look().published;
  if (is_published_already()) {
    if (!over_ || there.value("final", false)) return;
    there["final"] = true;
    versions_.amend(there);
    return report_.publish(std::move(there));
  }
  const diloco::Round version = state_->version();
  const diloco::Round before = there.is_null() ? 0 : there.value("version", diloco::Round{0});
  const bool early = !there.is_null() && version >= before && version < before + options_.every;
  if (early && !over_ && there.value("run", "") == run_.run_id()) return;
  const auto write = [&](const fs::path& directory) {
    state_->write_model(directory, options_.stored);
  };
  try {
    report_.publish(versions_.publish(version, state_->digest(), write, facts()));
    unpublished_.clear();
    spdlog::info("version {} of run {} is in {}", version, run_.run_id(),
                 (options_.directory / "current").string());
  } catch (const std::system_error& error) {
    if (!diloco::is_storage_failure(error)) throw;
    unpublished_ = "version " + std::to_string(version) + " has no room: " + error.what() +
                   "; a version is published when there is";
    spdlog::error("{}", unpublished_);
  }
}

void Follower::check_end(const std::string& region) {
  if (!finished_ || !state_ || state_->version() != finished_->version ||
      run_.rounds() > state_->version())
    return;
  if (state_->digest() != finished_->state) {
    throw inter::LinkError(inter::Errc::bad_frame,
                           region + " says that the run ended with another state of version " +
                               std::to_string(finished_->version) + " than the payloads give");
  }
  proven_ = over_ = true;
  run_.finish(finished_->version, finished_->state);
  if (options_.tell) options_.tell();
}

}  // namespace causeway::run
