#include "intra/outer/state_reader.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "intra/base/error.h"
#include "intra/outer/outer_state.h"

namespace causeway::intra {

TensorView flat_tensor(const std::string& name, std::span<const float> values) {
  return {name, {static_cast<std::int64_t>(values.size())}, values};
}

const std::string& StateReader::get(const std::string& key) const {
  const auto found = reader_.metadata().find(key);
  if (found == reader_.metadata().end()) refuse("has no entry " + key);
  return found->second;
}

void StateReader::read_kept(const std::string& name, std::span<float> out) const {
  if (out.empty()) return;
  if (reader_.has(name)) return read(name, out);
  std::ranges::fill(out, 0.0F);
}

void StateReader::read_unhashed(const std::string& name, std::span<float> out) const {
  const auto shape = reader_.shape(name);
  if (shape != std::vector{static_cast<std::int64_t>(out.size())})
    refuse("tensor '" + name + "' has another size than here");
  reader_.read_part(name, 0, out);
}

void StateReader::refuse(const std::string& why) const {
  throw std::system_error(
      Errc::bad_checkpoint,
      file_.string() + ": " + why + "; remove it to start from the run's own state");
}

void check_origin(const StateReader& reader, const diloco::Layout& layout) {
  if (reader.get("format") != kStateFormat)
    reader.refuse("is not a training state of this version");
  if (reader.get("layout") != fingerprint(layout))
    reader.refuse("holds another model than the configuration describes");
}

}  // namespace causeway::intra
