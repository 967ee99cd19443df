// What devices could do at most, to tell how much of it training uses (MFU: model FLOPs
// utilisation, as in Chowdhery et al., 2022).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "intra/model/model.h"

namespace causeway::intra {

// FLOP/s of dense matrix products of this precision (fp32: of TF32), as the device's maker states
// them. `device` is what its driver calls it. Nothing for a device that is not in the table.
std::optional<double> peak_flops(std::string_view device, ModelOptions::Precision precision);

// Of `devices` such devices that train this model at this speed together; nothing for an unknown
// device.
std::optional<double> model_flops_utilisation(const ModelOptions& model, double tokens_per_s,
                                              std::string_view device, std::size_t devices);

}  // namespace causeway::intra
