// A region as its coordinator shows it: from its directory on this host, or over the network.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/run/region/region_files.h"
#include "inter/mesh/mesh.h"

namespace causeway::run {

struct SeenRegion {
  std::string name;          // the region's, or where it was looked for if that is not known
  std::string text;          // status.json as it was written; empty: nothing was seen
  bool runs = false;         // a coordinator runs there now
  bool starts = false;       // which still reads its files: the text is an earlier one's
  bool hangs = false;        // or has shown no sign of life for long
  bool finished = false;     // the run is over there
  std::string written_utc;   // of a directory: when its coordinator wrote last
  std::string problem;       // why nothing was seen; empty: something was
  bool run_is_over = false;  // as another region of the run says; of one that does not answer
  bool undialled = false;    // nobody can ask it over the network
  // Of one that was not seen, as the others say: who has a link to it; whether it was a member.
  std::vector<std::string> linked_to;
  bool removed = false;
  // The others; 0 unless it is so far that its work does not count.
  std::uint64_t rounds_behind = 0;
  // Of a run that is over, and nobody runs who has them; 0: it lacks none, or can still hear of
  // them.
  std::uint64_t rounds_missed = 0;
  std::vector<std::string> to_start;  // regions whose coordinators then have to run again

  bool works() const { return runs && !starts && !hangs; }
  bool is_only_linked() const { return undialled && !linked_to.empty(); }
  bool falls_behind() const { return rounds_behind > 0; }
  bool missed_end() const { return rounds_missed > 0; }
  bool is_well() const {
    return finished || run_is_over || removed || is_only_linked() ||
           (runs && !hangs && !falls_behind() && !missed_end());
  }
};

// What its status.json says; empty of one that was not seen.
RegionStatus status_of(const SeenRegion& region);

// Throws ConfigError if it is not one of a region that was started.
SeenRegion look_at_directory(const std::filesystem::path& region_directory);

struct Observer {
  std::filesystem::path certificates;
  std::string as;  // whose certificate; empty: the only one there
  std::chrono::milliseconds deadline;
};

// Throws what inter::observe() does, and ConfigError if there is no certificate to observe with, or
// the answer is none of a coordinator.
SeenRegion look_at_address(const inter::Endpoint& address, const Observer& observer);

// One that hears nothing of the others, or hangs, does not know that it falls behind: the newest
// round that any of them has shows it.
void compare_rounds(std::vector<SeenRegion>& regions);

// A region is told to finish when the whole run is over: others that no longer answer have ended.
// Of those whose directory was seen it says itself whether they have finished.
void note_who_ended(std::vector<SeenRegion>& regions);

// Of those that were not seen: a region that nobody can dial takes part if another one has a link
// to it, and one that was removed is nobody's worry.
void note_what_others_say(std::vector<SeenRegion>& regions);

// One that was cut off when the others ended waits for ever for what they know. Not while another
// one runs that knows it: regions end one after the other. After note_who_ended().
void note_missed_ends(std::vector<SeenRegion>& regions);

}  // namespace causeway::run
