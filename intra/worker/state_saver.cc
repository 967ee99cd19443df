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
  if (refusals_ > 0) spdlog::info("{} is saved again, after {} refusals", what_, refusals_);
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

void UnreadTensors::await(const std::size_t& left) {
  std::unique_lock lock(mutex_);
  fewer_.wait(lock, [&left] { return left == 0; });
}

void UnreadTensors::await_stepped() {
  await(stepped_);
}

void UnreadTensors::await_all() {
  await(all_);
}

// ---- A save ----

std::optional<StateSaver::Saved> StateSaver::save(std::optional<StateImage> state,
                                                  std::optional<SnapshotImage> snapshot,
                                                  Refusal refusal) {
  assert(!under_way() && (state || snapshot));
  Saved before{.version = state ? state->version : snapshot->version,
               .digest = state ? state->digest : snapshot->digest};
  Job job{std::move(state), std::move(snapshot), refusal, before};
  leave_out_what_is_saved(job);
  const std::uint64_t bytes = bytes_of(job.state) + bytes_of(job.snapshot);
  job.beside = refusal == Refusal::trains_on && bytes >= place_.beside_steps_bytes;
  const bool beside = job.beside;
  const std::size_t stepped = job.state ? job.state->stepped : 0;
  unread_.expect(stepped, tensors_of(job.state) - stepped + tensors_of(job.snapshot));
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
  const std::pair here(job.saved.version, job.saved.digest);
  std::error_code unreadable;
  const auto is_there = [&unreadable](const fs::path& file) {
    return fs::exists(file, unreadable);
  };
  if (job.state && saved_ && !changed_ && is_there(newest_state_file(place_.directory))) {
    job.state.reset();
    job.saved.state = true;
  }
  if (job.snapshot && snapshot_ == here && is_there(snapshot_file(place_.directory))) {
    job.snapshot.reset();
    job.saved.snapshot = true;
  }
}

StateSaver::Saved StateSaver::finish() {
  assert(under_way());
  saved_ = false;  // if it throws
  const Saved saved = job_.get();
  saved_ = saved.state;
  if (saved.snapshot) snapshot_.emplace(saved.version, saved.digest);
  return saved;
}

bool StateSaver::is_over() const {
  return under_way() && job_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// ---- As it is written, perhaps on another thread ----

StateSaver::Saved StateSaver::run(Job& job) {
  diloco::Descriptor alone;
  if (job.beside) alone = await_other_writer(checkpoint_directory(place_.directory));
  const std::unique_ptr<UnreadTensors, void (*)(UnreadTensors*)> at_last(
      &unread_, [](UnreadTensors* unread) { unread->none(); });
  const bool wants_state = job.state.has_value(), wants_snapshot = job.snapshot.has_value();
  if (wants_state) job.saved.state = write_state_of(job);
  if (wants_snapshot) diloco::reached(diloco::ProtocolState::state_saved);
  if (wants_snapshot && (job.saved.state || !wants_state))
    job.saved.snapshot = write_snapshot_of(job);
  if (wants_snapshot) diloco::reached(diloco::ProtocolState::snapshot_written);
  return job.saved;
}

bool StateSaver::write_state_of(Job& job) {
  StateImage& image = *job.state;
  tell_known_hashes(job, image.tensors);
  const auto read = [this, stepped = image.stepped](std::size_t i) { unread_.read(i < stepped); };
  const auto write = [&] {
    know(job, image.tensors, write_state(place_.directory, image, place_.states_kept, read));
  };
  return saving_state_.attempt(write, job.refusal);
}

bool StateSaver::write_snapshot_of(Job& job) {
  SnapshotImage& image = *job.snapshot;
  tell_known_hashes(job, image.tensors);
  const auto read = [this](std::size_t) { unread_.read(false); };
  const auto write = [&] {
    diloco::create_private_directories(checkpoint_directory(place_.directory));
    know(job, image.tensors, write_snapshot(snapshot_file(place_.directory), image, read));
  };
  return saving_snapshot_.attempt(write, job.refusal);
}

// The digest is of anchor and momentum.
void StateSaver::tell_known_hashes(const Job& job, std::vector<TensorView>& tensors) const {
  if (known_.first != job.saved.digest) return;
  for (TensorView& tensor : tensors) {
    const auto found = known_.second.find(tensor.name);
    if (found != known_.second.end()) tensor.sha256 = found->second;
  }
}

void StateSaver::know(const Job& job, const std::vector<TensorView>& tensors,
                      const std::vector<std::string>& hashes) {
  known_ = {job.saved.digest, {}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == "anchor" || tensors[i].name == "momentum")
      known_.second.emplace(tensors[i].name, hashes[i]);
  }
}

}  // namespace causeway::intra
