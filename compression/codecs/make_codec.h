// The codec that a spec names.
#pragma once

#include <memory>
#include <string_view>

#include "compression/base/codec.h"
#include "compression/index/index.h"
#include "compression/sparsifier/sparsifier.h"
#include "compression/value/value.h"

namespace causeway::compression {

// Specs: "dense:fp32", "dense:int8,block=128", "topk:k=64,chunk=4096,value=2bit,index=elias-fano".
// Omitted settings take their defaults. Throws Errc::bad_spec naming the part that is wrong.
std::unique_ptr<Codec> make_codec(std::string_view spec);

// Codecs out of their parts.
// Every element: the values of one chunk after the other.
std::unique_ptr<Codec> make_dense(std::unique_ptr<ValueFormat> value);

// What the sparsifier keeps: per chunk the positions, then the values at them.
std::unique_ptr<Codec> make_sparse(std::unique_ptr<Sparsifier> sparsifier,
                                   std::unique_ptr<ValueFormat> value,
                                   std::unique_ptr<IndexFormat> index);

}  // namespace causeway::compression
