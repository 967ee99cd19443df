// The codec that a spec names.
#pragma once

#include <memory>
#include <string_view>

#include "compression/base/codec.h"

namespace causeway::compression {

// Specs: "dense:fp32", "dense:int8,block=128", "topk:k=64,chunk=4096,value=2bit,index=elias-fano".
// Omitted settings take their defaults. Throws Errc::bad_spec naming the part that is wrong.
std::unique_ptr<Codec> make_codec(std::string_view spec);

}  // namespace causeway::compression
