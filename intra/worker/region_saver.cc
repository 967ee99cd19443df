#include "intra/worker/region_saver.h"

#include <exception>
#include <future>
#include <system_error>
#include <utility>

#include "diloco/files/archive.h"
#include "diloco/files/fault_point.h"
#include "diloco/files/file_io.h"
#include "intra/base/resources.h"
#include "intra/collective/collective.h"

namespace causeway::intra {
namespace {

constexpr std::chrono::milliseconds kTouch{50};  // between words of one that waits for the disk

}  // namespace

RegionSaver::RegionSaver(const StateSaver::Place& place, OuterState& state, RoundTrainer& trainer)
    : directory_(place.directory), state_(state), trainer_(trainer), saver_(place) {}

void RegionSaver::join(Gathering& gathering, const diloco::Layout& layout) {
  gathering_ = &gathering;
  layout_ = &layout;
  saver_.changed();
  saver_.forget_saved();
}

void RegionSaver::leave() {
  unread_ = false;
  end_save();
  gathering_ = nullptr;
}

void RegionSaver::forget_saved() {
  saver_.forget_saved();
  offered_.reset();
}

void RegionSaver::save(What what, Refusal refusal) {
  save_s_ += seconds_of([&] {
    if (what != What::snapshot) trainer_.settle_state();
    std::optional<StateSaver::Saved> saved;
    together(gathering_->group(), "saving to disk", [&] {
      if (gathering_->leads()) saved = begin_save(what, refusal);
    });
    if (saved) note(*saved);
    if (refusal == Refusal::throws) await_save();
    unread_ = lowest_of_ranks(gathering_->group(), saver_.under_way() ? 0 : 1) == 0;
  });
  if (unread_) trainer_.hold_back_steps([this] { await_read(&StateSaver::stepped_is_read); });
  if (gathering_->leads() || what != What::state_and_snapshot) return;
  diloco::reached(diloco::ProtocolState::state_saved);
  diloco::reached(diloco::ProtocolState::snapshot_written);
}

std::optional<StateSaver::Saved> RegionSaver::begin_save(What what, Refusal refusal) {
  std::optional<StateImage> state;
  if (what != What::snapshot) state = trainer_.image();
  return saver_.save(std::move(state), snapshot_of(state_, *layout_), what != What::state, refusal);
}

// However long the disk takes, the other ranks hear that this one lives.
void RegionSaver::meet_until(const std::string& what, const IsDone& is_done) {
  for (bool all_done = false; !all_done;) {
    bool done = false;
    together(gathering_->group(), what, [&] { done = is_done(kTouch); });
    all_done = lowest_of_ranks(gathering_->group(), done ? 1 : 0) == 1;
  }
}

void RegionSaver::await_save() {
  std::optional<StateSaver::Saved> saved;
  meet_until("saving to disk", [&](std::chrono::milliseconds at_most) {
    trainer_.report();  // so that the coordinator hears it too
    if (saver_.is_over(at_most)) saved = saver_.finish();
    return !saver_.under_way();
  });
  if (saved) note(*saved);
}

void RegionSaver::write_on_first_rank(const std::string& what, const std::function<void()>& write) {
  std::future<void> writing;
  if (gathering_->leads()) {
    try {
      writing = std::async(std::launch::async, write);
    } catch (const std::system_error&) {  // no more threads are allowed
      writing = std::async(std::launch::deferred, write);
    }
  }
  meet_until(what, [&](std::chrono::milliseconds at_most) {
    trainer_.report();
    if (writing.valid() && writing.wait_for(at_most) == std::future_status::timeout) return false;
    if (writing.valid()) writing.get();
    return true;
  });
}

// What goes wrong, all ranks hear when they next ask.
void RegionSaver::end_save() {
  if (!saver_.under_way()) return;
  save_s_ += seconds_of([this] {
    try {
      note(saver_.finish());
    } catch (...) {
      const auto failure = std::current_exception();
      if (gathering_ == nullptr) throw;
      gathering_->tell([&](auto&) { std::rethrow_exception(failure); });
    }
  });
}

void RegionSaver::await_spans() {
  if (std::exchange(unread_, false)) await_read(&StateSaver::all_is_read);
}

void RegionSaver::await_read(bool (StateSaver::*is_read)(std::chrono::milliseconds)) {
  save_s_ += seconds_of([&] {
    meet_until("saving to disk",
               [&](std::chrono::milliseconds at_most) { return (saver_.*is_read)(at_most); });
  });
}

void RegionSaver::note(const StateSaver::Saved& saved) {
  if (saved.state) state_.on_disk = saved.version;
  const Offered snapshot{saved.version, saved.digest};
  if (!saved.snapshot || offered_ == snapshot) return;
  offer(snapshot);
  if (saved.state) trainer_.checkpointed();
}

// Another rank may write the next one.
void RegionSaver::offer_again() {
  if (!gathering_->leads()) offered_.reset();
  const diloco::Round from = gathering_->attachment().snapshot_from;
  if (from > 0 && offered_ && offered_->version >= from) offer(*offered_);
}

void RegionSaver::offer(const Offered& snapshot) {
  offered_ = snapshot;
  if (gathering_ == nullptr) return;
  gathering_->tell([&](auto& session) {
    session.offer_snapshot(snapshot.version, snapshot.state, snapshot_file(directory_));
  });
}

void RegionSaver::archive_state() {
  trainer_.spans().settled(Flat::anchor);
  trainer_.spans().settled(Flat::momentum);
  save_s_ += seconds_of([&] {
    write_on_first_rank("saving to disk", [&] {
      const auto file = diloco::archived_state(directory_, state_.version);
      if (!diloco::has_archive(directory_) || exists(file)) return;
      archiving_.attempt([&] { write_snapshot(file, *layout_, state_); });
    });
  });
}

void RegionSaver::look() {
  if (saver_.is_over()) end_save();
}

}  // namespace causeway::intra
