// Error feedback (EF-SGD, arXiv 1901.09847; decay beta as in SparseLoCo, arXiv 2508.15706).
#pragma once

#include <span>

#include "compression/base/codec.h"

namespace causeway::compression {

// p = beta * residual + delta; appends encode(p) to `out`; residual <- p - Q(p). All spans have one
// size; an empty residual is one of zeros that nobody keeps: there is no error feedback. p must be
// finite: otherwise throws Errc::not_finite, leaves `out` as it was, and the residual is spent (a
// copy to go back to would cost a third more memory traffic). Runs on several threads by chunk
// (OMP_NUM_THREADS) where the codec has chunk_bytes(), with the same bits for any number.
EncodeStats encode_with_feedback(const Codec& codec, std::span<const float> delta, float beta,
                                 std::span<float> residual, std::vector<std::byte>& out,
                                 const EncodeKey& key = {});

// The same for a codec with chunk_bytes(), into exactly encoded_bytes_max(delta.size()) bytes,
// whatever they were: a vector sets its bytes to zero first, which takes longer than it seems. If p
// is not finite, the bytes are unspecified.
EncodeStats encode_with_feedback(const Codec& codec, std::span<const float> delta, float beta,
                                 std::span<float> residual, std::span<std::byte> out,
                                 const EncodeKey& key = {});

// How many spans of the delta's size that takes besides its arguments: none by chunk.
std::size_t feedback_copies(const Codec& codec);

}  // namespace causeway::compression
