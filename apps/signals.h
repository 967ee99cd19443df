// Ctrl-C in the foreground programs: the first SIGINT or SIGTERM asks for a clean end, the second
// ends at once.
#pragma once

namespace causeway::apps {

void watch_signals();   // installs the handlers
bool stop_requested();  // true after the first signal

}  // namespace causeway::apps
