// The codecs that devices encode and decode, with the bytes and residuals of the CPU's.
#pragma once

#include <optional>
#include <string_view>
#include <variant>

#include "compression/cuda/chunk_int8.h"
#include "compression/cuda/chunk_topk.h"

namespace causeway::compression::cuda {

using DeviceFormat = std::variant<TopKFormat, Int8Format>;

// dense:int8 with any block, and topk with value=2bit and index=elias-fano; nothing for a codec
// that runs on the CPU alone. Throws Errc::bad_spec.
std::optional<DeviceFormat> device_format(std::string_view spec);

}  // namespace causeway::compression::cuda
