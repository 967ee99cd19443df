#include "apps/run/follow/signed_ledger.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <variant>

#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/ledger/ledger_files.h"
#include "diloco/log/withdraw.h"
#include "inter/base/error.h"
#include "inter/base/text.h"
#include "inter/tls/signature.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadAtOnce = 256;  // entries

[[noreturn]] void refuse_answer(const std::string& why) {
  throw inter::LinkError(inter::Errc::bad_frame, why);
}

// Empty: none. A region mends what it can; a follower begins anew.
std::string damage_of(const fs::path& ledger) {
  if (!fs::exists(ledger / "records")) return "";
  try {
    const std::string run = diloco::read_run_id(ledger);
    const auto extent = diloco::scan_ledger(ledger / "records", run, [](auto&&, std::size_t) {});
    if (extent.whole_bytes > 0 && !fs::exists(ledger / "raft")) return "ledger/raft is missing";
  } catch (const std::system_error& error) {
    return error.what();
  }
  const std::vector<std::string> damaged = diloco::damaged_files(ledger);
  return damaged.empty() ? "" : damaged.front();
}

// The state may turn out to be damaged, and an earlier snapshot takes its place.
diloco::Round long_before(diloco::Round version) {
  return version - std::min(version, SignedLedger::kBeforeState);
}

}  // namespace

SignedLedger::SignedLedger(fs::path directory, std::vector<std::string> trusted, std::size_t needed,
                           diloco::Round version)
    : directory_(std::move(directory)),
      trusted_(std::move(trusted)),
      needed_(needed),
      from_(long_before(version)) {
  const fs::path ledger = directory_ / "ledger";
  if (const std::string damage = damage_of(ledger); !damage.empty()) {
    spdlog::warn("{} is damaged ({}): the run's records are fetched again", ledger.string(),
                 damage);
    fs::remove_all(ledger);
  }
  ledger_.emplace(ledger);
  for (diloco::Index first = 1; first <= ledger_->committed(); first += kReadAtOnce) {
    const std::size_t count = std::min<std::size_t>(kReadAtOnce, ledger_->committed() + 1 - first);
    for (const diloco::LogEntry& entry : ledger_->read(first, count)) apply(entry);
  }
  taken_back_.reset();
  for (const diloco::SignedHead& head : diloco::read_heads(ledger))
    if (head.entries == entries()) signatures_[head.region] = head;
}

// Of the entries before entry `at` of `told`.
diloco::Digest SignedLedger::hash_before(const std::string& run, const ToldEntries& told,
                                         std::uint64_t at) const {
  if (at > 0) return told.hashes[at - 1];
  return run_id().empty() ? diloco::chain_start(run) : head();
}

void SignedLedger::add(ToldEntries& told, const diloco::FollowerAnswer& answer) const {
  if (answer.first != entries() + told.size())
    refuse_answer("it answers for other entries than were asked for");
  if (told.size() > 0 && told.run_id != answer.run_id) refuse_answer("it changes its run");
  told.run_id = answer.run_id;
  told.known = answer.known;
  diloco::Digest hash = hash_before(told.run_id, told, told.size());
  const bool expects = !expected_.empty();
  for (const diloco::LogEntry& entry : answer.entries) {
    if (expects && told.size() == expected_.size()) return;
    hash = diloco::chain_next(hash, diloco::content_of(entry));
    if (expects && hash != expected_[told.size()])
      refuse_answer("it tells of another history than the one that was signed");
    if (told.size() >= kHashesMax)
      refuse_answer("it tells of more than " + std::to_string(kHashesMax) +
                    " entries that too few regions have signed");
    if (!told.hashes_alone) told.entries.push_back(entry);
    told.hashes.push_back(hash);
  }
}

SignedLedger::Signatures SignedLedger::signers(const ToldEntries& told,
                                               const diloco::FollowerAnswer& answer,
                                               const inter::TlsContext& context) const {
  const std::uint64_t last = entries() + told.size();
  if (told.size() == 0 || answer.first < entries() || answer.first >= last) return {};
  std::uint64_t at = answer.first - entries();
  diloco::Digest hash = hash_before(answer.run_id, told, at);
  for (const diloco::LogEntry& entry : answer.entries) {
    if (at == told.size()) break;
    hash = diloco::chain_next(hash, diloco::content_of(entry));
    if (hash != told.hashes[at++])
      refuse_answer("its history is another one at entry " + std::to_string(entries() + at));
  }
  Signatures signatures;
  for (const diloco::SignedHead& one : answer.heads) {
    const bool counts = std::ranges::find(trusted_, one.region) != trusted_.end();
    if (one.entries != last || at != told.size() || !counts) continue;
    const inter::VerifyingKey key(one.certificate, one.region, context);
    if (!key.verify(diloco::signed_content(hash), one.signature))
      refuse_answer("the signature that it gives for " + one.region + " is wrong");
    signatures[one.region] = one;
  }
  return signatures;
}

void SignedLedger::expect(const ToldEntries& told, Signatures signatures) {
  expected_.assign(told.hashes.begin(), told.hashes.end());
  signed_expected_ = std::move(signatures);
}

void SignedLedger::take_expected(const ToldEntries& told) {
  const bool all = told.size() == expected_.size();
  take(told, all ? std::exchange(signed_expected_, {}) : Signatures());
  expected_.erase(expected_.begin(), expected_.begin() + static_cast<std::ptrdiff_t>(told.size()));
}

void SignedLedger::take(const ToldEntries& told, Signatures signatures) {
  if (told.size() == 0) return;
  if (run_id().empty()) {
    ledger_->save_raft(1, "", 1, {});  // a ledger without promises counts as damaged
    ledger_->set_run_id(told.run_id);
  }
  ledger_->append(told.entries);
  for (const diloco::LogEntry& entry : told.entries) apply(entry);
  signatures_ = std::move(signatures);
  if (signatures_.empty()) return;  // whoever follows this follower has those of earlier ones
  std::vector<diloco::SignedHead> heads;
  for (const auto& [region, head] : signatures_) heads.push_back(head);
  diloco::replace_file(directory_ / "ledger" / "heads", diloco::heads_bytes(heads),
                       diloco::Durability::visible);
}

void SignedLedger::apply(const diloco::LogEntry& entry) {
  if (const auto* const members = std::get_if<diloco::Membership>(&entry.body)) members_ = *members;
  const auto* const record = std::get_if<diloco::CommitRecord>(&entry.body);
  if (record == nullptr) return;
  const diloco::Effect effect = diloco::effect_of(*record, rounds_, revision_);
  if (effect == diloco::Effect::none) return;
  if (effect == diloco::Effect::replaces) {
    ++revision_;
    records_.erase(records_.lower_bound(record->round), records_.end());
    taken_back_ = std::min(record->round, taken_back_.value_or(record->round));
    from_ = std::min(from_, record->round);
  }
  if (record->round >= from_) records_[record->round] = *record;
  rounds_ = record->round + 1;
}

const diloco::CommitRecord* SignedLedger::record(diloco::Round round) const {
  const auto found = records_.find(round);
  return found == records_.end() ? nullptr : &found->second;
}

void SignedLedger::forget_before(diloco::Round round) {
  from_ = std::max(from_, round);
  records_.erase(records_.begin(), records_.lower_bound(round));
}

void SignedLedger::forget_long_before(diloco::Round version) {
  forget_before(long_before(std::min(version, rounds_)));
}

std::optional<diloco::Round> SignedLedger::take_back() {
  return std::exchange(taken_back_, std::nullopt);
}

}  // namespace causeway::run
