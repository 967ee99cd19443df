// What a program gives to its worker (worker.h): checked, and in the worker's own terms.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "diloco/maths/layout.h"
#include "intra/base/strided_tensor.h"
#include "intra/worker/round_driver.h"
#include "intra/worker/worker.h"

namespace causeway::worker_arguments {

inline std::vector<diloco::TensorSpec> specs(const std::vector<Tensor>& tensors) {
  std::vector<diloco::TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const Tensor& tensor : tensors) specs.push_back({tensor.name, tensor.shape});
  return specs;
}

// For regions to compare: with values as long as they are those that a run begins with.
inline diloco::NamedTensors named_tensors(const diloco::Layout& layout,
                                          const intra::OuterState& state) {
  diloco::NamedTensors tensors;
  for (const diloco::PlacedTensor& placed : layout.tensors()) {
    diloco::NamedTensor tensor{.name = placed.spec.name, .shape = placed.spec.shape};
    if (state.version == 0) {
      const auto values = std::span(state.anchor).subspan(placed.offset, placed.spec.count());
      tensor.values = diloco::sha256(std::as_bytes(values));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

inline intra::RoundDriver::Region region_of(const WorkerSettings& settings) {
  return {.name = settings.region,
          .directory = settings.directory,
          .coordinator = settings.coordinator,
          .certificates = settings.certificates,
          .save_rounds = settings.save_rounds};
}

inline WorkerSettings checked(WorkerSettings settings) {
  const auto refuse = [](const std::string& why) { throw std::invalid_argument(why); };
  if (settings.region.empty()) refuse("settings.region is empty: name the region of this worker");
  if (settings.directory.empty())
    refuse("settings.directory is empty: give the directory of the region's coordinator");
  if (exists(settings.directory) && !is_directory(settings.directory))
    refuse("settings.directory, " + settings.directory.string() + ", is not a directory");
  if (settings.tensors.empty()) refuse("settings.tensors is empty: list what is trained");
  if (settings.coordinator.empty() != settings.certificates.empty())
    refuse("settings.coordinator and settings.certificates go together: give both, or neither");
  const auto check_number = [&](std::uint64_t number, const std::string& name) {
    if (number == 0) refuse("settings." + name + " is 0: it must be at least 1");
  };
  check_number(settings.samples_per_step, "samples_per_step");
  check_number(settings.save_rounds, "save_rounds");
  if (settings.tokens_per_step == 0) settings.tokens_per_step = settings.samples_per_step;
  return settings;
}

// Views of what is only read may be of something constant.
inline intra::StridedTensors flat_tensors(const diloco::Layout& layout,
                                          std::span<const float> params) {
  return intra::contiguous_tensors(layout, const_cast<float*>(params.data()), params.size());
}

inline intra::StridedTensors listed_tensors(std::span<const ParameterView> params) {
  intra::StridedTensors views;
  for (const ParameterView& param : params)
    views.push_back({param.data, param.shape, param.strides});
  return views;
}

}  // namespace causeway::worker_arguments
