// T14: a payload has no size limit, and none of it has to fit in memory. 8 GiB from a generator.
#include <fstream>

#include "inter/base/hash_tree.h"
#include "tests/inter/mesh/mesh_fixture.h"

namespace causeway::inter {
namespace {

constexpr std::uint64_t kPayloadBytes = 8ULL << 30;
constexpr std::uint64_t kResidentKiBMax = 256 << 10;

// Chunk number `chunk` of a payload that exists nowhere as a whole.
void generate(std::uint64_t chunk, std::span<std::byte> bytes) {
  std::uint64_t word = chunk * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t i = 0; i + sizeof word <= bytes.size(); i += sizeof word) {
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
}

BlobId generate_into(Spool& spool) {
  std::vector<std::byte> bytes(kChunkBytesMax);
  std::vector<Sha256Hash> chunks;
  for (std::uint64_t chunk = 0; chunk < kPayloadBytes / kChunkBytesMax; ++chunk) {
    generate(chunk, bytes);
    chunks.push_back(tree_hash(bytes));
  }
  const BlobId id{tree_root(std::move(chunks)), kPayloadBytes};
  for (std::uint64_t chunk = 0; chunk < kPayloadBytes / kChunkBytesMax; ++chunk) {
    generate(chunk, bytes);
    spool.write(id, chunk, bytes);
  }
  spool.check(id);
  return id;
}

std::uint64_t resident_kib_at_most() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::stoull(line.substr(6));
    }
  }
  return 0;
}

class T14 : public MeshTest {};

TEST_F(T14, EightGibibytesTravelWithoutBeingInMemory) {
  MeshOptions listener = options("b");
  point(listener, "a", 1);
  Region& b = add(listener, 2 * kPayloadBytes);
  b.mesh->start();
  MeshOptions dialler = options("a");
  point(dialler, "b", b.mesh->listening_port());
  Region& a = add(dialler, 2 * kPayloadBytes);
  const BlobId id = generate_into(a.spool);
  a.mesh->start();
  a.mesh->push_blob("b", id);
  std::uint64_t received = 0;
  while (!b.spool.has(id)) {  // as long as it gets on
    ASSERT_TRUE(
        run_until([&] { return b.spool.received_bytes(id) > received || b.spool.has(id); }));
    received = b.spool.received_bytes(id);
  }
  EXPECT_TRUE(a.downs.empty() && b.downs.empty());
  EXPECT_LT(resident_kib_at_most(), kResidentKiBMax);
}

}  // namespace
}  // namespace causeway::inter
