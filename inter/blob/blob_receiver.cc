#include "inter/blob/blob_receiver.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "inter/base/error.h"
#include "inter/base/limits.h"
#include "inter/base/text.h"

namespace causeway::inter {
namespace {

// A request that got lost, whatever the reason, is made again after a minute; a shorter pause would
// fill a slow link with the requests of a region that is far behind.
constexpr int kRepeatsMax = 6;

void remember(std::set<BlobId>& set, const BlobId& id) {
  if (set.size() >= kRememberedBlobsMax) set.erase(set.begin());
  set.insert(id);
}

// Where the n-th source of a blob begins. Two that begin at the ends and meet send nothing twice
// but what is under way when they meet.
BlobFetch plan_fetch(const BlobId& id, ChunkMap held, std::size_t earlier_sources) {
  const std::uint64_t chunks = held.size();
  BlobFetch fetch{id, Order::ascending, 0, std::move(held)};
  if (earlier_sources % 2 == 1) {
    fetch.order = Order::descending;
    fetch.start = chunks - 1;
  }
  if (earlier_sources >= 2) fetch.start = chunks / 2;
  return fetch;
}

}  // namespace

Intake::Intake(const asio::any_io_executor& executor, Spool& spool, std::uint64_t blob_bytes_max,
               Completed completed, asio::any_io_executor hashing, Verifier::Lost lost)
    : spool_(spool),
      blob_bytes_max_(std::min(blob_bytes_max, kBlobBytesMax)),
      completed_(std::move(completed)),
      verifier_(
          executor, spool,
          [this](const BlobId& id, const auto& failure, auto chunks) {
            on_verdict(id, failure, chunks);
          },
          std::move(hashing), std::move(lost)) {}

void Intake::forgo(const BlobId& id) {
  remember(forgone_, id);
}

// A blob that is begun takes two files. Of a peer that begins ever more of them the oldest gives
// way, unless another peer sends it too.
void Intake::note_begun(const BlobId& id, const std::string& peer) {
  std::deque<BlobId>& begun = unasked_[peer];
  begun.push_back(id);
  if (begun.size() <= kRememberedBlobsMax) return;
  const BlobId oldest = begun.front();
  begun.pop_front();
  if (!spool_.partial(oldest) || other_sources(oldest, peer) > 0) return;
  try {
    spool_.remove(oldest);
  } catch (const std::system_error&) {
    return;  // a disk that fails: it goes when there is need for room
  }
  for (BlobReceiver* const receiver : receivers_)
    if (receiver->peer_ == peer) receiver->on_abandon(oldest);
}

void Intake::store(BlobReceiver& from, const BlobChunk& chunk) {
  const bool is_new = spool_.store(chunk.id, chunk.chunk, chunk.bytes);
  if (is_new) {
    arrivals_.add(chunk.id, spool_.life(chunk.id), chunk.chunk, from.peer_);
    if (arrivals_.size() > arrivals_max_) {
      arrivals_.keep_only(spool_.begun());
      // A peer may begin any number: they are looked through as rarely as they double.
      arrivals_max_ = std::max(kRememberedBlobsMax, 2 * arrivals_.size());
    }
  }
  for (BlobReceiver* const receiver : receivers_)
    if (receiver == &from || receiver->is_source(chunk.id))
      receiver->on_stored(chunk.id, chunk.chunk);
  if (is_new) verifier_.add(chunk.id, chunk.chunk, chunk.bytes);
}

void Intake::on_verdict(const BlobId& id, const std::optional<std::system_error>& failure,
                        std::span<const Sha256Hash> chunks) {
  if (failure && failure->code() == Errc::hash_mismatch) return on_mismatch(id, *failure, chunks);
  const std::string last = arrivals_.last(id);
  for (BlobReceiver* const receiver : receivers_) {
    // One that took it back may be pushed it anew.
    const bool told = receiver->incoming_.contains(id) || receiver->taken_back_.contains(id);
    if (!failure && told) receiver->on_completed(id);
    // One that was only asked was told of chunks that a disk did not take after all.
    if (failure && receiver->is_source(id)) receiver->on_failed(id, *failure, "");
  }
  if (failure) return;
  for (const auto& [peer, wrong] : arrivals_.on_right(id, chunks)) {
    accuse(peer, fmt::format("{} of the {} chunks of blob {} with wrong bytes", wrong,
                             chunks.size(), to_string(id)));
  }
  completed_(last, id);
}

void Intake::on_mismatch(const BlobId& id, const std::system_error& failure,
                         std::span<const Sha256Hash> chunks) {
  const Arrivals::Repair repair = arrivals_.on_mismatch(id, chunks, peers());
  if (!repair.wrong.empty())
    accuse(repair.wrong, fmt::format("all of blob {} by itself, with wrong bytes", to_string(id)));
  std::optional<std::system_error> unable;
  try {
    repair.stays.none() ? spool_.remove(id) : spool_.drop(id, repair.stays.inverse());
  } catch (const std::system_error& error) {
    unable = error;
  }
  const std::string& again = repair.keeper.empty() ? repair.alone : repair.keeper;
  for (BlobReceiver* const receiver : receivers_) {
    if (unable && receiver->is_source(id))
      receiver->decline(id, unable->what());
    else if (!unable && !repair.keeper.empty() && receiver->peer_ == repair.keeper)
      receiver->repair(id, repair.stays.count());
    else if (receiver->is_source(id))
      receiver->on_failed(id, failure, again);
  }
}

void Intake::accuse(const std::string& peer, const std::string& of_what) {
  if (const auto more = log_.take("accusing " + peer))
    spdlog::error("{} sent {}: its disk or its memory is faulty, or it lies{}", peer, of_what,
                  *more);
}

std::set<std::string> Intake::peers() const {
  std::set<std::string> peers;
  for (const BlobReceiver* const receiver : receivers_) peers.insert(receiver->peer_);
  return peers;
}

// A spool may be full for long, and peers have ever more for it.
void Intake::log_decline(const std::string& what, const BlobId& id, const std::string& reason) {
  if (const auto more = log_.take(what))
    spdlog::warn("{} blob {}: {}{}", what, to_string(id), reason, *more);
}

// Without those of `peer`, whose earlier session may not be gone yet.
std::size_t Intake::other_sources(const BlobId& id, const std::string& peer) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(receivers_, [&](const BlobReceiver* receiver) {
        return receiver->peer_ != peer && receiver->is_source(id);
      }));
}

BlobReceiver::BlobReceiver(std::shared_ptr<Intake> intake, std::string peer, Answer answer)
    : intake_(std::move(intake)), peer_(std::move(peer)), answer_(std::move(answer)) {
  intake_->receivers_.insert(this);
}

BlobReceiver::~BlobReceiver() {
  intake_->receivers_.erase(this);
}

// Its map of chunks would take memory in proportion.
bool BlobReceiver::declines_size_of(const BlobId& id) {
  const std::uint64_t most = intake_->blob_bytes_max_;
  if (id.size_bytes <= most) return false;
  decline(id, fmt::format("larger than the limit of {} bytes", most));
  return true;
}

// It would be spoilt again by whoever spoilt it.
bool BlobReceiver::declines_repaired(const BlobId& id) {
  const std::string keeper = intake_->arrivals_.keeper(id);
  const bool comes = std::ranges::any_of(intake_->receivers_, [&](const BlobReceiver* receiver) {
    return receiver->peer_ == keeper && receiver->is_source(id);
  });
  if (!comes || keeper == peer_ || is_source(id)) return false;
  decline(id, "its content did not match its hash; " + keeper + " sends it again");
  return true;
}

void BlobReceiver::want(const BlobId& id) {
  intake_->forgone_.erase(id);
  const bool all_here = id.size_bytes > 0 && intake_->spool_.received_bytes(id) == id.size_bytes;
  if (all_here) {
    intake_->verifier_.finish(id);
    return;
  }
  // What was under way may have been removed for something else.
  const bool begun = intake_->spool_.partial(id).has_value();
  const auto asked = asked_.find(id);
  const bool waits = begun && asked != asked_.end() &&
                     asked->second.life == intake_->spool_.life(id) &&
                     ++asked->second.repeats <= kRepeatsMax;
  const bool comes = begun && incoming_.contains(id);
  if (intake_->spool_.has(id) || waits || comes || declines_size_of(id)) return;
  if (const auto problem = ask(id))
    intake_->log_decline("not asking " + peer_ + " for", id, *problem);
}

void BlobReceiver::forgo(const BlobId& id) {
  intake_->forgo(id);
  take_back(id);
}

// Its decline has no reason: the peer has done nothing wrong.
void BlobReceiver::take_back(const BlobId& id) {
  on_abandon(id);
  remember(taken_back_, id);
  answer_(encode(BlobDecline{id, ""}));
}

// Not without room for it, which is then kept. Returns what is in the way.
std::optional<std::string> BlobReceiver::ask(const BlobId& id) {
  try {
    intake_->spool_.expect(id);
  } catch (const std::system_error& error) {
    return error.what();
  }
  on_abandon(id);
  // What was dropped in silence since then the peer may take for under way.
  if (declined_.erase(id) > 0) answer_(encode(BlobDecline{id, ""}));
  taken_back_.erase(id);
  answer_(encode(plan_fetch(id, intake_->spool_.held(id), intake_->other_sources(id, peer_))));
  if (asked_.size() >= kRememberedBlobsMax) asked_.clear();
  asked_[id] = {.life = intake_->spool_.life(id)};
  return std::nullopt;
}

void BlobReceiver::on_offer(const BlobId& id) {
  if (declines_size_of(id) || declines_repaired(id)) return;
  if (intake_->spool_.has(id)) {
    answer_(encode_id(FrameType::blob_complete, id));
  } else if (intake_->forgone_.contains(id)) {
    take_back(id);
  } else {
    const bool begins = !intake_->spool_.partial(id);
    if (const auto problem = ask(id)) return decline(id, *problem);
    if (begins) intake_->note_begun(id, peer_);
  }
}

void BlobReceiver::on_chunk(const BlobChunk& chunk) {
  const BlobId& id = chunk.id;
  if (intake_->spool_.has(id)) {
    on_completed(id);
    return;
  }
  if (declined_.contains(id) || declines_size_of(id) || declines_repaired(id)) return;
  const bool begins = !intake_->spool_.partial(id);
  try {
    if (!taken_back_.contains(id)) incoming_.insert(id);
    asked_.erase(id);
    intake_->store(*this, chunk);  // which may end with a verdict
    if (begins) intake_->note_begun(id, peer_);
  } catch (const std::system_error& error) {
    decline(id, error.what());
  }
}

void BlobReceiver::on_abandon(const BlobId& id) {
  incoming_.erase(id);
  asked_.erase(id);
}

void BlobReceiver::on_stored(const BlobId& id, std::uint64_t chunk) {
  answer_(encode(BlobAck{id, chunk}));
}

void BlobReceiver::on_completed(const BlobId& id) {
  on_abandon(id);
  taken_back_.erase(id);
  mismatches_.erase(id);
  answer_(encode_id(FrameType::blob_complete, id));
}

void BlobReceiver::repair(const BlobId& id, std::uint64_t stays) {
  const std::uint64_t chunks = chunk_count(id.size_bytes);
  spdlog::warn("blob {} does not match its hash; asking {} for {} of its {} chunks again",
               to_string(id), peer_, chunks - stays, chunks);
  if (const auto problem = ask(id)) decline(id, *problem);
}

// One that alone sent all of it gets to do so again, once.
void BlobReceiver::on_failed(const BlobId& id, const std::system_error& failure,
                             const std::string& repairer) {
  on_abandon(id);
  const bool mismatch = failure.code() == Errc::hash_mismatch;
  if (mismatch && !repairer.empty() && repairer != peer_) {
    decline(id, "its content did not match its hash; " + repairer + " sends it again");
  } else if (mismatch && repairer == peer_ && mismatches_.size() < kRememberedBlobsMax &&
             ++mismatches_[id] == 1) {
    spdlog::warn("blob {} from {} does not match its hash; asking for all of it again",
                 to_string(id), peer_);
    if (const auto problem = ask(id)) decline(id, *problem);
  } else {
    decline(id, failure.what());
  }
}

void BlobReceiver::decline(const BlobId& id, const std::string& reason) {
  intake_->log_decline("declining from " + peer_, id, reason);
  on_abandon(id);
  remember(declined_, id);
  answer_(encode(BlobDecline{id, reason}));
}

std::string BlobReceiver::describe() const {
  if (!busy()) return "";
  const BlobId& id = *incoming_.begin();
  return "receiving blob " + to_string(id) + ", " +
         percent(intake_->spool_.received_bytes(id), id.size_bytes) + " here";
}

}  // namespace causeway::inter
