#include "apps/printable_output.h"

#include "inter/base/text.h"

namespace causeway::apps {

PrintableOutput::int_type PrintableOutput::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof()))
    return traits_type::not_eof(character);
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

std::streamsize PrintableOutput::xsputn(const char* text, std::streamsize size) {
  kept_.append(text, static_cast<std::size_t>(size));
  const bool ends = kept_.find('\n', kept_.size() - static_cast<std::size_t>(size)) != kept_.npos;
  return !ends || pass_on() ? size : 0;
}

int PrintableOutput::sync() {
  return pass_on() && below_->pubsync() == 0 ? 0 : -1;
}

bool PrintableOutput::pass_on() {
  const std::string text = inter::printable(kept_);
  kept_.clear();
  const auto size = static_cast<std::streamsize>(text.size());
  return below_->sputn(text.data(), size) == size;
}

}  // namespace causeway::apps
