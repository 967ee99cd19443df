// The factories behind the tables of codec.cc, value.cc and index.cc. Each takes its settings from
// the spec and throws Errc::bad_spec.
#pragma once

#include <memory>

#include "compression/index.h"
#include "compression/sparsifier.h"
#include "compression/spec.h"
#include "compression/value.h"

namespace causeway::compression {

std::unique_ptr<ValueFormat> make_fp32(Spec& spec);
std::unique_ptr<ValueFormat> make_bf16(Spec& spec);
std::unique_ptr<ValueFormat> make_fp16(Spec& spec);
std::unique_ptr<ValueFormat> make_int8(Spec& spec);
std::unique_ptr<ValueFormat> make_int4(Spec& spec);
std::unique_ptr<ValueFormat> make_int4_asymmetric(Spec& spec);
std::unique_ptr<ValueFormat> make_nf4(Spec& spec);
std::unique_ptr<ValueFormat> make_e2m1(Spec& spec);
std::unique_ptr<ValueFormat> make_e3m0(Spec& spec);
std::unique_ptr<ValueFormat> make_ternary(Spec& spec);
std::unique_ptr<ValueFormat> make_two_bit(Spec& spec);
std::unique_ptr<ValueFormat> make_one_bit(Spec& spec);

std::unique_ptr<IndexFormat> make_elias_fano();
std::unique_ptr<IndexFormat> make_rice();
std::unique_ptr<IndexFormat> make_packed_12();
std::unique_ptr<IndexFormat> make_bitmap();
std::unique_ptr<IndexFormat> make_raw();

std::unique_ptr<Sparsifier> make_topk(Spec& spec);
std::unique_ptr<Sparsifier> make_global_topk(Spec& spec);
std::unique_ptr<Sparsifier> make_threshold(Spec& spec);

}  // namespace causeway::compression
