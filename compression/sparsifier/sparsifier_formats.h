// The sparsifiers behind the families of make_codec.cc. Each takes its settings from the spec and
// throws Errc::bad_spec.
#pragma once

#include <memory>

#include "compression/base/spec.h"
#include "compression/sparsifier/sparsifier.h"

namespace causeway::compression {

std::unique_ptr<Sparsifier> make_topk(Spec& spec);
std::unique_ptr<Sparsifier> make_global_topk(Spec& spec);
std::unique_ptr<Sparsifier> make_threshold(Spec& spec);

}  // namespace causeway::compression
