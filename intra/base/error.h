// intra's error category.
#pragma once

#include <string>
#include <system_error>

namespace causeway::intra {

enum class Errc {
  bad_data = 1,    // a data file cannot be used; the message names it and what is allowed
  data_changed,    // a data file was written to while it was read; the next start may do better
  bad_checkpoint,  // a checkpoint is missing, corrupt or of another model
  bad_model,       // impossible model settings
  bad_settings,    // what the coordinator says of the run cannot be used
  collective,      // an in-region collective failed: a rank died or hung
  not_finite,      // loss or gradient became NaN or infinite
  no_device,       // regions.device names what is not here
  rank_failed,     // another rank of this region failed, and so this one stops too
  interrupted,     // SIGINT or SIGTERM asked the worker to stop; state was saved
};
std::error_code make_error_code(Errc code);

// Its code is Errc::bad_checkpoint. The file may be whole: what failed is to open or to read it.
class UnreadableFile : public std::system_error {
 public:
  using std::system_error::system_error;
};

// What an error says, without the category's own words, which std::system_error adds at its end.
// For messages that say more than these words, and for those that become part of another error's.
std::string message_of(const std::system_error& error);

// The same, with those words if nothing else in it says them: they may be all that is known.
std::string message_said_once(const std::system_error& error);

}  // namespace causeway::intra

template <>
struct std::is_error_code_enum<causeway::intra::Errc> : std::true_type {};
