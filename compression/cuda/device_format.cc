#include "compression/cuda/device_format.h"

#include <charconv>
#include <string>

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"

namespace causeway::compression::cuda {
namespace {

// The number between `before` and `after`, if that is what the text is; else 0.
std::size_t number_within(std::string_view text, std::string_view before, std::string_view after) {
  std::size_t number = 0;
  if (!text.starts_with(before) || !text.ends_with(after)) return 0;
  text.remove_prefix(before.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  return error == std::errc() && rest == after ? number : 0;
}

}  // namespace

std::optional<DeviceFormat> device_format(std::string_view spec) {
  const std::string full = make_codec(spec)->spec();
  if (const auto k = number_within(full, "topk:k=", ",chunk=4096,value=2bit,index=elias-fano"))
    return TopKFormat{{k}};
  if (const auto block = number_within(full, "dense:int8,block=", "")) return Int8Format{block};
  return std::nullopt;
}

}  // namespace causeway::compression::cuda
