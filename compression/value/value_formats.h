// The value formats behind the table of value.cc. Each takes its settings from the spec and throws
// Errc::bad_spec.
#pragma once

#include <memory>

#include "compression/base/spec.h"
#include "compression/value/value.h"

namespace causeway::compression {

std::unique_ptr<ValueFormat> make_fp32(Spec& spec);
std::unique_ptr<ValueFormat> make_bf16(Spec& spec);
std::unique_ptr<ValueFormat> make_fp16(Spec& spec);
std::unique_ptr<ValueFormat> make_int8(Spec& spec);
std::unique_ptr<ValueFormat> make_int4(Spec& spec);
std::unique_ptr<ValueFormat> make_int4_asymmetric(Spec& spec);
std::unique_ptr<ValueFormat> make_two_bit(Spec& spec);
std::unique_ptr<ValueFormat> make_one_bit(Spec& spec);

}  // namespace causeway::compression
