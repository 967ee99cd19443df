// Asks the system to run this thread when its time has come.
#pragma once

#include <sched.h>
#include <sys/prctl.h>

namespace causeway::wan_sim {

// Timers to the nanosecond instead of 50 us; and, where the user may (root), before threads that
// are not in a hurry. Children inherit neither the right nor the haste. Best effort: lateness is
// measured.
inline void make_this_thread_punctual() {
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  sched_param parameter{};
  parameter.sched_priority = sched_get_priority_min(SCHED_RR);
  ::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &parameter);
}

}  // namespace causeway::wan_sim
