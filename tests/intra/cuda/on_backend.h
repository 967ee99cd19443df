// The conformance suite of sums in bfloat16, on backends.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "intra/cuda/jobs/backend.h"
#include "intra/cuda/step/device_bf16_sums.h"
#include "tests/intra/collective/bf16_sums_conformance.h"

namespace causeway::intra::cuda {

inline auto sums_on_backend(std::function<std::unique_ptr<Backend>(std::size_t rank)> make) {
  return [make = std::move(make)](Collective& hosts, const Bf16Room& room, std::span<float> values,
                                  const Bf16SumsUnderTest::OnValues& operation) {
    const std::unique_ptr<Backend> backend = make(hosts.rank());
    const auto group = backend->group(hosts, std::chrono::seconds(60));
    const auto sums = make_device_bf16_sums(group.get(), hosts, *backend, room);
    auto* const there = reinterpret_cast<float*>(backend->allocate(values.size_bytes()));
    backend->upload(values.data(), there, values.size_bytes());
    backend->point()->wait();
    operation(*sums, {there, values.size()});
    backend->download(there, values.data(), values.size_bytes());
  };
}

}  // namespace causeway::intra::cuda
