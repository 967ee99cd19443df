#include "diloco/round/same_work.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace causeway::diloco {
namespace {

// Smaller payloads may be equal by chance.
constexpr std::uint64_t kTellingBytes = 1024;

const Digest& made_hash(const Contribution& made) {
  return made.whole ? *made.whole : made.payload.hash;
}

// Steps that change nothing, as timed ones do, are the same everywhere. A codec may draw other
// random numbers in each region, which the norm does not see.
bool are_the_same(const Contribution& one, const Contribution& other) {
  const bool comparable = one.round == other.round && one.part == other.part && one.steps > 0 &&
                          one.delta_norm > 0 && other.delta_norm > 0;
  if (!comparable) return false;
  const bool same_payload = one.payload.size_bytes >= kTellingBytes &&
                            one.payload.size_bytes == other.payload.size_bytes &&
                            made_hash(one) == made_hash(other);
  const bool same_delta =
      one.delta_norm == other.delta_norm && one.steps == other.steps && one.tokens == other.tokens;
  return same_payload || same_delta;
}

}  // namespace

void SameWork::check(const CommitRecord& record) {
  for (std::size_t i = 0; i < record.participants.size(); ++i) {
    const Contribution* const one = contribution_of(record.participants[i]);
    for (std::size_t j = 0; one != nullptr && j < i; ++j) {
      const Contribution* const other = contribution_of(record.participants[j]);
      if (other == nullptr || other->region == one->region || !are_the_same(*one, *other)) continue;
      if (!told_.emplace(other->region, one->region).second) continue;
      region_.out.push(Note{
          Note::Severity::warning,
          fmt::format("{} and {} contributed exactly the same work to round {}: they seem to train "
                      "on the same data with the same seeds, and the work of one of them is "
                      "wasted. Give each region its part of the data (in a program: part "
                      "steps.part of steps.parts)",
                      other->region, one->region, one->round),
          "same_work"});
    }
  }
}

const Contribution* SameWork::contribution_of(const Participant& listed) const {
  const Contribution* const known = region_.contributions.find(key_of(listed));
  return known != nullptr && known->payload == listed.payload ? known : nullptr;
}

}  // namespace causeway::diloco
