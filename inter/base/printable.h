// Text that others wrote (peers, files, archives, models), as a terminal or a log may show it.
#pragma once

#include <string>
#include <string_view>

namespace causeway::inter {

// '?' for each control character (those of C0 and C1, and delete), and for each byte that is not
// UTF-8. Ends of lines and tabs stay.
std::string printable(std::string_view text);
// The same on one line: '?' for ends of lines and tabs too.
std::string printable_line(std::string_view text);

}  // namespace causeway::inter
