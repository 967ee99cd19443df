// Bugs to plant, so that tests of the protocol can be seen to find them.
#pragma once

#include "diloco/files/fault_point.h"

namespace causeway::diloco {

// A known bug to behave with, so that the simulation's checkers can be seen to find it.
enum class PlantedBug {
  none,
  forget_votes,             // acknowledges before anything is on disk (the harness loses it)
  accept_stale_frames,      // follows a leader of an older term
  commit_without_majority,  // one vote elects, one copy commits
  list_unspooled,           // lists payloads that only their contributor holds
  list_expired,             // lists work that has gone back to the residual
  no_pre_vote,              // whoever was cut off deposes the leader when it returns
  keep_everything,          // lets go of nothing that nobody needs any more
  believe_terms,            // any member's word deposes the leader, and raises the term at will
  ignore_checksums,         // takes what is on the disk as it is
  vote_after_damage,        // keeps its vote although it lost what it had promised
  believe_heads,            // ends when any member's ledger is said to be another
  believe_hearsay,          // takes what one region says of another for that one's word
  stale_greeting,           // greets with the run that it knew when it started (the harness does)
  no_detours,               // without a link two regions do not talk (the harness cuts them off)
  count_unchecked,          // takes whose bytes have all arrived for a holder, for good
  hand_over_unchecked,      // gives the worker what is in the spool as it is
  stand_still,              // takes nothing back that is listed and that nobody has
};

// Whether to behave with `bug`: never in a build without tests.
constexpr bool plants(PlantedBug planted, PlantedBug bug) {
  return kFaultInjection && planted == bug;
}

}  // namespace causeway::diloco
