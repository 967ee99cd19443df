// A process and all that it started, directly or not, whatever groups or sessions these are in now.
#pragma once

#include <sys/types.h>

namespace causeway::run {

// SIGKILL, SIGSTOP or SIGCONT to `root`, which is a child of ours that was not reaped, and to all
// its descendants. None escapes by starting another meanwhile; one whose parent has ended is not
// found.
void signal_tree(pid_t root, int signal);

}  // namespace causeway::run
