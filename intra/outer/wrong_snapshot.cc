#include "intra/outer/wrong_snapshot.h"

#include <algorithm>
#include <span>
#include <system_error>
#include <vector>

#include "intra/base/error.h"
#include "intra/base/safetensors.h"

namespace causeway::intra {
namespace {

constexpr std::size_t kHeaderBytesMax = 16'000'000;  // some 100 bytes for each tensor of a model
constexpr std::size_t kPieceElements = 64 * diloco::kLeafElements;

diloco::Digest root_of(const SafetensorsReader& file, const std::string& tensor) {
  std::size_t left = 1;
  for (const std::int64_t extent : file.shape(tensor)) left *= static_cast<std::size_t>(extent);
  // A layout pads to whole leaves. With fewer zeros at its end a tensor would have the same digest.
  if (file.shape(tensor).size() != 1 || left % diloco::kLeafElements != 0)
    throw std::system_error(Errc::bad_checkpoint, tensor + " is not padded to whole leaves");
  std::vector<diloco::Digest> leaves;
  std::vector<float> piece(kPieceElements);
  for (std::size_t begin = 0; left > 0; begin += kPieceElements) {
    const std::size_t count = std::min(left, kPieceElements);
    file.read_part(tensor, begin, std::span(piece).first(count));
    const auto some = diloco::merkle_leaves(std::span(piece).first(count));
    leaves.insert(leaves.end(), some.begin(), some.end());
    left -= count;
  }
  return diloco::merkle_root(leaves);
}

}  // namespace

std::string wrong_snapshot(const std::filesystem::path& file, const diloco::Digest& state) {
  try {
    const SafetensorsReader reader(file, kHeaderBytesMax);
    const diloco::Digest found =
        diloco::state_digest(root_of(reader, "anchor"), root_of(reader, "momentum"));
    if (found == state) return {};
    return "holds another state than it was said to hold (" + diloco::to_hex(found) +
           " where the run has " + diloco::to_hex(state) + ")";
  } catch (const std::system_error& error) {
    if (error.code() != Errc::bad_checkpoint) throw;
    return std::string("is no snapshot (") + error.what() + ")";
  }
}

}  // namespace causeway::intra
