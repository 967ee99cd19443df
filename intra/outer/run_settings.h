// What a coordinator tells its workers of the run: the settings that all regions share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diloco/maths/outer.h"
#include "intra/outer/codec_policy.h"

namespace causeway::intra {

struct RunSettings {
  std::uint64_t seed = 1;
  std::uint64_t steps = 0;           // of the whole run
  std::vector<std::string> regions;  // ascending
  CodecOptions codec;
  diloco::OuterOptions outer;
  diloco::OverlapOptions overlap;
  std::uint64_t validation_samples = 0;  // that judge K, after every change of the anchor; 0: none
};

// TOML lines with dotted keys, as in diloco::Attachment; keys that are not outer rounds' business
// are skipped, and one that is missing keeps its default. Throws Errc::bad_settings saying what is
// wrong.
RunSettings parse_run_settings(const std::string& text);

}  // namespace causeway::intra
