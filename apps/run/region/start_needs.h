// What a process that runs for days needs of its host at the start, and what may not be there yet:
// a port or a directory that another process still has, an address, a name server, certificates
// that are mounted and valid as the clock says, a file system that can be written.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "inter/mesh/mesh.h"

namespace causeway::run {

struct StartNeeds {
  std::string who;  // in lines of the log
  std::filesystem::path directory;
  std::optional<inter::Credentials> credentials;
  std::vector<inter::Endpoint> listens;  // where it will listen; checks that no two are the same
  std::string listens_for = {};          // what for, with the options that say where
  std::string meets_at = {};  // a host whose name has to be known; empty: it meets nobody
  // Held by whoever is what this process will be, and what to say of that. A process that was
  // stopped has it to its end; where the region moved from a host that died, a shared file system
  // may keep it for a minute or two.
  std::filesystem::path lock = {};
  std::string lock_is_held = {};
};

// What nobody did wrong, and what may pass by itself: it is worth trying again, later.
bool is_transient(const std::error_code& code);

inline constexpr std::chrono::seconds kStartWait{60};

// Throws what the first failed check throws. Nothing that it opens stays open. While a name server
// is asked, `meanwhile` is called twice a second; what it throws ends the check.
void check(const StartNeeds& needs, const std::function<void()>& meanwhile = {});

// Checks once a second for as long as `patience` while what fails may pass (is_transient),
// with a line for each cause, and then throws that. What does not pass is left to whoever needs it,
// which may have more to say. Stops at a stop signal with intra::Errc::interrupted.
void wait_for(const StartNeeds& needs, std::chrono::seconds patience);

}  // namespace causeway::run
