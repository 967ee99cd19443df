// Tasks side by side in this process, each with its share of the OpenMP threads: one short trial of
// a small model leaves most of a host's cores without work.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "apps/run/config/config.h"

namespace causeway::run {

// How many trials of `config` this host has threads and free memory for; one at a time where a
// region is on a GPU. At least 1.
std::size_t trials_side_by_side(const Config& config);

// `at_once` of them at any time, in order. Once one throws no other begins, and the first error is
// thrown when all have ended.
void run_side_by_side(std::size_t at_once, const std::vector<std::function<void()>>& tasks);

}  // namespace causeway::run
