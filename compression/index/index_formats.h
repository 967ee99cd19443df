// The index formats behind the table of index.cc.
#pragma once

#include <memory>

#include "compression/index/index.h"

namespace causeway::compression {

std::unique_ptr<IndexFormat> make_elias_fano();
std::unique_ptr<IndexFormat> make_rice();
std::unique_ptr<IndexFormat> make_packed_12();
std::unique_ptr<IndexFormat> make_bitmap();
std::unique_ptr<IndexFormat> make_raw();

}  // namespace causeway::compression
