#include "intra/outer/own_payload.h"

#include <utility>

namespace causeway::intra {

OwnPayload::OwnPayload(diloco::SealedBytes bytes)
    : sealed_(std::move(bytes)), hash_(std::async(std::launch::async, [sealed = sealed_] {
        return diloco::sha256(sealed.bytes());
      })) {}

}  // namespace causeway::intra
