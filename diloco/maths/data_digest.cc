#include "diloco/maths/data_digest.h"

namespace causeway::diloco {
namespace {

constexpr std::size_t kDigits = 12;

}  // namespace

bool same_data(const DataDigest& one, const DataDigest& other) {
  if (one.whole && other.whole) return *one.whole == *other.whole;
  return one.sample == other.sample;
}

std::string short_name(const DataDigest& data) {
  if (data.whole) return to_hex(*data.whole).substr(0, kDigits);
  return "a sample: " + to_hex(data.sample).substr(0, kDigits);
}

}  // namespace causeway::diloco
