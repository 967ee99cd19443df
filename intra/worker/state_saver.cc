#include "intra/worker/state_saver.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <bit>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/files/file_io.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

template <typename Image>
std::size_t tensors_of(const std::optional<Image>& image) {
  return image ? image->tensors.size() : 0;
}

template <typename Image>
std::uint64_t bytes_of(const std::optional<Image>& image) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors_of(image); ++i)
    bytes += image->tensors[i].values.size_bytes();
  return bytes;
}

constexpr std::chrono::seconds kOtherWriterMax{60};
constexpr int kLookAgainMs = 20;

// One of a region's processes writes at a time. The others may have gone on without a rank that
// still writes, and its older state must not come after theirs. A process that hangs holds them up
// for kOtherWriterMax. Nothing is locked without a directory, or where the file system has no
// locks.
diloco::Descriptor await_other_writer(const fs::path& directory) {
  const auto until = std::chrono::steady_clock::now() + kOtherWriterMax;
  diloco::Descriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  while (descriptor.get() >= 0 && ::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0 &&
         errno == EWOULDBLOCK && std::chrono::steady_clock::now() < until)
    ::poll(nullptr, 0, kLookAgainMs);  // a lock has no event to wait for with a deadline
  return descriptor;
}

}  // namespace

bool Saving::attempt(const std::function<void()>& write, Refusal refusal) {
  try {
    write();
  } catch (const std::system_error& error) {
    if (refusal == Refusal::throws || !diloco::is_storage_failure(error)) throw;
    if (std::has_single_bit(++refusals_)) {
      spdlog::error(
          "{} was not saved: {} ({} times in a row). Training goes on; what was saved before "
          "stays, "
          "and it is tried again when it is due. Make room or repair the disk",
          what_, error.what(), refusals_);
    }
    return false;
  }
  if (refusals_ > 0) spdlog::info("{} is saved again, after {} failures", what_, refusals_);
  refusals_ = 0;
  return true;
}

// ---- What is not read yet ----

void UnreadTensors::expect(std::size_t stepped, std::size_t others) {
  const std::lock_guard lock(mutex_);
  stepped_ = stepped;
  all_ = stepped + others;
}

void UnreadTensors::read(bool stepped) {
  const std::lock_guard lock(mutex_);
  --all_;
  if (stepped) --stepped_;
  fewer_.notify_all();
}

void UnreadTensors::none() {
  const std::lock_guard lock(mutex_);
  stepped_ = all_ = 0;
  fewer_.notify_all();
}

bool UnreadTensors::is_read(const std::size_t& left, std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  return fewer_.wait_for(lock, at_most, [&left] { return left == 0; });
}

// ---- A save ----

std::optional<StateSaver::Saved> StateSaver::save(std::optional<StateImage> state,
                                                  SnapshotImage outer, bool offers,
                                                  Refusal refusal) {
  assert(!under_way() && (state || offers));
  const Saved nothing{.version = outer.version, .digest = outer.digest};
  Job job{std::move(state), std::move(outer), offers, refusal, nothing};
  leave_out_what_is_saved(job);
  const std::uint64_t bytes = bytes_of(job.state) + bytes_of(job.outer);
  const bool beside = bytes >= place_.beside_steps_bytes;
  const std::size_t stepped = job.state ? job.state->stepped : 0;
  unread_.expect(stepped, tensors_of(job.state) - stepped + tensors_of(job.outer));
  changed_ = false;
  const auto write = [this, job = std::make_shared<Job>(std::move(job))] { return run(*job); };
  try {
    if (beside) job_ = std::async(std::launch::async, write);
  } catch (const std::system_error&) {  // no more threads are allowed
  }
  if (job_.valid()) return std::nullopt;
  job_ = std::async(std::launch::deferred, write);
  return finish();
}

// Somebody may have moved the files away.
void StateSaver::leave_out_what_is_saved(Job& job) const {
  Saved& saved = job.saved;
  const auto is_there = [](const fs::path& file) {
    std::error_code unreadable;
    return fs::exists(file, unreadable);
  };
  const auto has = [&](const std::optional<Written>& written) {
    return written && written->version == saved.version && written->digest == saved.digest &&
           is_there(written->file);
  };
  saved.outer = has(outer_);
  saved.outer_name =
      saved.outer ? outer_->file.filename().string() : draw_outer_name(saved.version);
  if (job.state && saved_ && !changed_ && saved.outer &&
      is_there(newest_state_file(place_.directory))) {
    job.state.reset();
    saved.state = true;
  }
  if (job.snapshot && has(snapshot_)) {
    job.snapshot = false;
    saved.snapshot = true;
  }
  if (saved.outer || !(job.state || job.snapshot)) job.outer.reset();
}

StateSaver::Saved StateSaver::finish() {
  assert(under_way());
  saved_ = false;  // if it throws
  const Saved saved = job_.get();
  saved_ = saved.state;
  if (saved.outer) outer_ = {saved.version, saved.digest, outer_file(saved.outer_name)};
  if (saved.snapshot) snapshot_ = {saved.version, saved.digest, snapshot_file(place_.directory)};
  return saved;
}

bool StateSaver::is_over(std::chrono::milliseconds at_most) const {
  return under_way() && job_.wait_for(at_most) == std::future_status::ready;
}

// ---- As it is written, perhaps on another thread ----

StateSaver::Saved StateSaver::run(Job& job) {
  const auto alone = await_other_writer(checkpoint_directory(place_.directory));
  const std::unique_ptr<UnreadTensors, void (*)(UnreadTensors*)> at_last(
      &unread_, [](UnreadTensors* unread) { unread->none(); });
  const bool wants_state = job.state.has_value();
  if (wants_state) job.saved.state = write_state_of(job);
  if (job.snapshot) diloco::reached(diloco::ProtocolState::state_saved);
  if (job.snapshot && (job.saved.state || !wants_state))
    job.saved.snapshot = write_snapshot_of(job);
  if (job.snapshot) diloco::reached(diloco::ProtocolState::snapshot_written);
  return job.saved;
}

bool StateSaver::write_state_of(Job& job) {
  StateImage& image = *job.state;
  const WriteHooks hooks{
      .tensor_read = [this, stepped = image.stepped](std::size_t i) { unread_.read(i < stepped); },
      .before_it_is_named = [&] { write_outer_of(job); }};
  const auto write = [&] {
    write_state(place_.directory, image, job.saved.outer_name, place_.states_kept, hooks);
  };
  return saving_state_.attempt(write, job.refusal);
}

bool StateSaver::write_snapshot_of(Job& job) {
  const auto write = [&] {
    write_outer_of(job);
    offer_outer_file(place_.directory, job.saved.outer_name);
  };
  return saving_snapshot_.attempt(write, job.refusal);
}

void StateSaver::write_outer_of(Job& job) {
  if (job.saved.outer) return;
  diloco::create_private_directories(checkpoint_directory(place_.directory));
  write_snapshot(outer_file(job.saved.outer_name), *job.outer,
                 [this](std::size_t) { unread_.read(false); });
  job.saved.outer = true;
}

}  // namespace causeway::intra
