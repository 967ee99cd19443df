// Saves a region's state and snapshot: at once, or, if they are large, on a thread of its own while
// steps go on. Whoever changes a span waits until that thread has read it. What was saved whole and
// did not change since is not written again: anchor and outer momentum once a version.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "intra/outer/state_file.h"

namespace causeway::intra {

// What happens if the disk takes nothing now: it throws, or training goes on without.
enum class Refusal : std::uint8_t { throws, trains_on };

// Something that is written now and then while a region trains. A disk that is full, read-only or
// failing must not end the training: it is tried again at the next occasion.
class Saving {
 public:
  // `what` is written, in the words of the log.
  explicit Saving(std::string what) : what_(std::move(what)) {}

  // Whether `write` returned. False if the disk refused; says so at the first refusal in a row, the
  // second, the fourth and so on, and when it works again. Throws all other errors, and with
  // Refusal::throws that too.
  bool attempt(const std::function<void()>& write, Refusal refusal = Refusal::trains_on);

 private:
  std::string what_;
  std::uint64_t refusals_ = 0;  // in a row
};

// Tensors that a save has yet to read. Of one thread that waits and those that read.
class UnreadTensors {
 public:
  void expect(std::size_t stepped, std::size_t others);
  void read(bool stepped);
  void none();  // whatever became of the save
  // Whether they are read; waits so long for it.
  bool stepped_is_read(std::chrono::milliseconds at_most) { return is_read(stepped_, at_most); }
  bool all_is_read(std::chrono::milliseconds at_most) { return is_read(all_, at_most); }

 private:
  bool is_read(const std::size_t& left, std::chrono::milliseconds at_most);

  std::mutex mutex_;
  std::condition_variable fewer_;
  std::size_t stepped_ = 0, all_ = 0;
};

// One thread, but for what it starts itself.
class StateSaver {
 public:
  struct Place {
    std::filesystem::path directory;  // the region's
    std::uint32_t states_kept = kStatesKept;
    std::uint64_t beside_steps_bytes = kSavedBesideStepsBytes;
  };
  // What is on disk.
  struct Saved {
    bool state = false, outer = false, snapshot = false;
    diloco::Round version = 0;
    diloco::Digest digest{};
    std::string outer_name = {};
  };

  explicit StateSaver(Place place) : place_(std::move(place)) {}

  // Something that the state's file holds was changed since save(), or may have been; clocks do not
  // count.
  void changed() { changed_ = true; }
  // What is on disk may be another process's, or was found to be damaged.
  void forget_saved() {
    saved_ = false;
    outer_.reset();
    snapshot_.reset();
  }

  // The state, if there is one, with the outer file that it names; then that file as the snapshot,
  // if `offers` says so. Without the state there is no snapshot: the run may drop what leads up to
  // one. Nothing is under way. Returns what is on disk, or nothing if that takes a while: then it
  // goes on in another thread. Throws what the disk throws.
  std::optional<Saved> save(std::optional<StateImage> state, SnapshotImage outer, bool offers,
                            Refusal refusal);

  bool under_way() const { return job_.valid(); }              // until finish()
  bool is_over(std::chrono::milliseconds at_most = {}) const;  // waits so long for it
  // Waits for it. Throws what went wrong.
  Saved finish();

  // Whether all is read that inner steps change, or everything; waits so long for it.
  bool stepped_is_read(std::chrono::milliseconds at_most) {
    return unread_.stepped_is_read(at_most);
  }
  bool all_is_read(std::chrono::milliseconds at_most) { return unread_.all_is_read(at_most); }

 private:
  // What is to be written.
  struct Job {
    std::optional<StateImage> state;
    std::optional<SnapshotImage> outer;
    bool snapshot = false;
    Refusal refusal = Refusal::throws;
    Saved saved;  // what was before it began
  };
  // A file on disk, as far as this process wrote it.
  struct Written {
    diloco::Round version = 0;
    diloco::Digest digest{};
    std::filesystem::path file;
  };

  std::filesystem::path outer_file(const std::string& name) const {
    return checkpoint_directory(place_.directory) / name;
  }
  void leave_out_what_is_saved(Job& job) const;
  Saved run(Job& job);
  bool write_state_of(Job& job);
  bool write_snapshot_of(Job& job);
  void write_outer_of(Job& job);

  const Place place_;
  bool changed_ = true, saved_ = false;  // the state: since save(), whose file is there
  std::optional<Written> outer_, snapshot_;
  Saving saving_state_{"the training state"}, saving_snapshot_{"the snapshot for other regions"};
  UnreadTensors unread_;
  std::future<Saved> job_;  // last: it uses the others
};

}  // namespace causeway::intra
