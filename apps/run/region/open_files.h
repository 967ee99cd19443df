// How many files and connections this process may have open at a time.
#pragma once

#include <sys/resource.h>

namespace causeway::run {

// As many as the system allows it: the usual soft limit of 1,024 is for programs that use select().
// Links, doors and the spool need theirs whatever else is open.
inline void raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace causeway::run
