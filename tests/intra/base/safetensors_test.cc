#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>

#include "intra/base/safetensors.h"
#include "tests/intra/data/memory_file.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

// A file of this header and so many bytes of data.
std::string raw(const std::string& header, std::size_t data_bytes) {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, 'd');
}

const std::vector<float> kMatrix = {1, 2, 3, 4, 5, 6};
const std::vector<float> kVector = {-0.0F, 1e-40F, 3.5F};

std::vector<TensorView> two_tensors() {
  return {{"w", {2, 3}, kMatrix}, {"b", {3}, kVector}};
}

// Bit for bit: -0 and denormals too.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Safetensors : public testing::Test {
 protected:
  static void refuses(const std::string& bytes, std::vector<std::string> parts) {
    const MemoryFile file(bytes);
    parts.push_back(file.path());
    expect_refusal(Errc::bad_checkpoint, parts, [&] { SafetensorsReader{file.path()}; });
  }

  TemporaryDirectory directory_;
  fs::path file_ = directory_.path() / "a.safetensors";
};

// Whoever hears that a tensor was read may change it at once, and the file is whole.
TEST_F(Safetensors, HoldsWhatTensorsWereBeforeTheyWereSaidToBeRead) {
  std::vector<float> first(1000, 1.0F), second(std::size_t{20} << 20, 2.0F);  // a large file
  const std::vector<TensorView> tensors{{"a", {1000}, first},
                                        {"b", {std::int64_t{20} << 20}, second}};
  std::mutex mutex;
  std::vector<std::size_t> read;
  const auto overwrite = [&](std::size_t index) {
    std::ranges::fill(index == 0 ? first : second, -1.0F);
    const std::lock_guard lock(mutex);
    read.push_back(index);
  };
  write_safetensors(file_, tensors, {}, {.tensor_read = overwrite});
  EXPECT_THAT(read, testing::UnorderedElementsAre(0, 1));
  std::vector<float> out(1000), large(second.size());
  const SafetensorsReader reader(file_);
  reader.read("a", out);  // compares the hash
  reader.read("b", large);
  EXPECT_EQ(out, std::vector<float>(1000, 1.0F));
  EXPECT_EQ(large, std::vector<float>(second.size(), 2.0F));
}

TEST_F(Safetensors, ReadsWhatWasWritten) {
  write_safetensors(file_, two_tensors(), {{"run", "r1"}, {"quote", "\"\n\xC3\xA9"}});
  const SafetensorsReader reader(file_);
  EXPECT_THAT(reader.names(), testing::UnorderedElementsAre("w", "b"));
  EXPECT_THAT(reader.shape("w"), testing::ElementsAre(2, 3));
  EXPECT_THAT(reader.metadata(),
              testing::UnorderedElementsAre(testing::Pair("run", "r1"),
                                            testing::Pair("quote", "\"\n\xC3\xA9")));
  std::vector<float> matrix(6), vector(3);
  reader.read("b", vector);
  reader.read("w", matrix);
  EXPECT_TRUE(same_bits(matrix, kMatrix));
  EXPECT_TRUE(same_bits(vector, kVector));
}

TEST_F(Safetensors, HoldsFilesWithoutTensorsOrElements) {
  write_safetensors(file_, {}, {});
  EXPECT_TRUE(SafetensorsReader(file_).names().empty());
  write_safetensors(file_, std::vector<TensorView>{{"none", {0, 3}, {}}}, {});
  SafetensorsReader(file_).read("none", {});
}

TEST_F(Safetensors, HasTheLayoutOfTheFormat) {
  write_safetensors(file_, two_tensors(), {{"run", "r1"}});
  const std::string bytes = contents(file_);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  ASSERT_EQ(bytes.size(), 8 + length + 9 * sizeof(float));
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(bytes[8], '{');
  EXPECT_THAT(bytes,
              testing::HasSubstr(R"("w":{"data_offsets":[0,24],"dtype":"F32","shape":[2,3]})"));
  EXPECT_THAT(bytes, testing::HasSubstr(R"("run":"r1")"));
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + length, kMatrix.data(), 24), 0);
}

TEST_F(Safetensors, ReadsFilesOfOtherPrograms) {
  // Other order, spaces, no metadata, no hashes.
  const std::string header = R"({ "b" : {"dtype":"F32","shape":[],"data_offsets":[8,12]}, )"
                             R"("a" : {"shape":[2],"data_offsets":[0,8],"dtype":"F32"} }  )";
  const SafetensorsReader reader(directory_.file("other", raw(header, 12)));
  std::vector<float> values(2);
  reader.read("a", values);
  EXPECT_TRUE(reader.shape("b").empty());
  reader.read("b", std::span(values).first(1));
  EXPECT_TRUE(reader.metadata().empty());
}

TEST_F(Safetensors, WidensFloatsOfSixteenBits) {
  const std::string header = R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                             R"("h":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},)"
                             R"("i":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})";
  const std::string halves("\x80\x3F\x20\xC0\x00\x3C\x00\xC1", 8);
  const fs::path file = directory_.file("halves", raw(header, 0) + halves + std::string(8, '\0'));
  const SafetensorsReader reader(file);
  std::vector<float> values(2);
  for (const char* name : {"b", "h"}) {
    reader.read(name, values);
    EXPECT_THAT(values, testing::ElementsAre(1.0F, -2.5F));
  }
  expect_refusal(Errc::bad_checkpoint, {"'i'", "I64"},
                 [&] { reader.read("i", std::span(values).first(1)); });
}

TEST_F(Safetensors, ReplacesAFileWholeAndLeavesNoTemporary) {
  write_safetensors(file_, two_tensors(), {{"version", "1"}});
  const SafetensorsReader old(file_);
  write_safetensors(file_, std::vector<TensorView>{{"w", {1}, {kMatrix.data(), 1}}},
                    {{"version", "2"}});
  EXPECT_EQ(SafetensorsReader(file_).metadata().at("version"), "2");
  std::vector<float> matrix(6);
  old.read("w", matrix);
  EXPECT_TRUE(same_bits(matrix, kMatrix)) << "an open reader keeps the file it opened";
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 1);
}

TEST_F(Safetensors, KeepsTheOldFileWhenItCannotWrite) {
  const fs::path missing = directory_.path() / "missing" / "a.safetensors";
  try {
    write_safetensors(missing, two_tensors(), {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(missing.parent_path().string()));
  }
  // A directory in the way lets the temporary file be written, but not renamed.
  fs::create_directories(file_ / "occupied");
  EXPECT_THROW(write_safetensors(file_, two_tensors(), {}), std::system_error);
  EXPECT_FALSE(fs::exists(file_.string() + ".tmp"));
}

TEST_F(Safetensors, NamesTheTensorThatIsDamaged) {
  write_safetensors(file_, two_tensors(), {});
  std::string bytes = contents(file_);
  bytes.back() ^= 1;
  const std::string damaged = directory_.file("damaged", bytes);
  const SafetensorsReader reader(damaged);
  std::vector<float> matrix(6), vector(3);
  EXPECT_NO_THROW(reader.read("w", matrix));
  expect_refusal(Errc::bad_checkpoint, {damaged, "tensor 'b'", "damaged"},
                 [&] { reader.read("b", vector); });
}

TEST_F(Safetensors, TakesAHashThatIsKnown) {
  std::vector<TensorView> tensors = two_tensors();
  tensors[0].hash = diloco::tree_hash(std::as_bytes(std::span(kMatrix)));
  tensors[1].hash = diloco::tree_hash(std::as_bytes(std::span(kMatrix)));  // another one's
  write_safetensors(file_, tensors, {});
  const SafetensorsReader reader(file_);
  std::vector<float> matrix(6), vector(3);
  EXPECT_NO_THROW(reader.read("w", matrix));
  expect_refusal(Errc::bad_checkpoint, {"tensor 'b'", "damaged"},
                 [&] { reader.read("b", vector); });
  // A known hash is of fp32.
  write_safetensors(file_, tensors, {}, {}, StoredAs::bf16);
  EXPECT_NO_THROW(SafetensorsReader(file_).read("b", vector));
}

TEST_F(Safetensors, ChecksThePlainSha256ThatEarlierVersionsWrote) {
  const auto file_with = [&](const std::string& hash) {
    const std::string header = R"({"__metadata__":{"causeway.sha256.b":")" + hash +
                               R"("},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    return directory_.file("earlier", raw(header, 8));
  };
  const std::string data(8, 'd');
  const std::string hash = diloco::to_hex(diloco::sha256(std::as_bytes(std::span(data))));
  std::vector<float> values(2);
  EXPECT_NO_THROW(SafetensorsReader(file_with(hash)).read("b", values));
  const SafetensorsReader damaged(file_with(std::string(64, '0')));
  expect_refusal(Errc::bad_checkpoint, {"tensor 'b'", "damaged"},
                 [&] { damaged.read("b", values); });
}

TEST_F(Safetensors, RefusesTheWrongNameOrSize) {
  write_safetensors(file_, two_tensors(), {});
  const SafetensorsReader reader(file_);
  std::vector<float> values(5);
  expect_refusal(Errc::bad_checkpoint, {file_.string(), "no tensor 'x'"},
                 [&] { reader.read("x", values); });
  expect_refusal(Errc::bad_checkpoint, {file_.string(), "no tensor 'x'"},
                 [&] { reader.shape("x"); });
  expect_refusal(Errc::bad_checkpoint, {file_.string(), "6 elements", "5 are needed"},
                 [&] { reader.read("w", values); });
}

TEST_F(Safetensors, RefusesWhatIsNoFile) {
  expect_refusal(Errc::bad_checkpoint, {file_.string(), "cannot be opened"},
                 [&] { SafetensorsReader{file_}; });
  expect_refusal(Errc::bad_checkpoint, {"not a regular file"},
                 [&] { SafetensorsReader{directory_.path()}; });
}

TEST_F(Safetensors, RefusesABadHeader) {
  refuses("", {"too short"});
  refuses("1234567", {"too short"});
  refuses(std::string(8, '\xFF'), {"header"});
  refuses(raw("{}", 0).substr(0, 9), {"incomplete"});
  refuses(raw("", 0), {"bad header"});
  refuses(raw("{", 0), {"bad header"});
  refuses(raw("[]", 0), {"not an object"});
  refuses(raw("{}x", 0), {"bad header"});
  refuses(raw(std::string(100'000, '['), 0), {"nests too deep"});
  refuses(raw(R"({"__metadata__":[]})", 0), {"__metadata__"});
  refuses(raw(R"({"__metadata__":{"a":1}})", 0), {"metadata 'a'"});
  refuses(raw(R"({"__metadata__":{"a":"1","a":"2"}})", 0), {"\"a\" twice"});
}

TEST_F(Safetensors, RefusesABadTensor) {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  EXPECT_NO_THROW(
      SafetensorsReader(directory_.file("good", raw(tensor(R"("F32")", "[2]", "[0,8]"), 8))));
  refuses(raw(R"({"t":1})", 0), {"tensor 't'", "object"});
  refuses(raw(R"({"t":{}})", 0), {"dtype"});
  refuses(raw(tensor(R"("F12")", "[2]", "[0,8]"), 8), {"dtype"});
  refuses(raw(tensor(R"("F16")", "[2]", "[0,8]"), 8), {"shape"});
  refuses(raw(tensor("1", "[2]", "[0,8]"), 8), {"dtype"});
  for (const char* offsets : {"0", "[]", "[0]", "[0,8,8]", "[-1,8]", "[0.0,8]", R"(["0",8])"}) {
    refuses(raw(tensor(R"("F32")", "[2]", offsets), 8), {"data_offsets"});
  }
  for (const char* offsets : {"[8,0]", "[0,16]", "[16,24]", "[0,18446744073709551615]"}) {
    refuses(raw(tensor(R"("F32")", "[2]", offsets), 8), {"outside the file"});
  }
  for (const char* shape :
       {"2", "[3]", "[1]", "[-2]", "[2.0]", "[\"2\"]", "[2,0]", "[]", "[4294967296,4294967296]",
        "[9223372036854775808,2]", "[4611686018427387905,2]", "[18446744073709551615]"}) {
    refuses(raw(tensor(R"("F32")", shape, "[0,8]"), 8), {"shape"});
  }
  refuses(raw(tensor(R"("F32")", "[2]", "[0,8]"), 12), {"bytes that belong to no tensor"});
  refuses(raw(tensor(R"("F32")", "[2]", "[4,12]"), 12), {"hole"});
}

TEST_F(Safetensors, RefusesTensorsThatOverlapOrRepeat) {
  const auto entry = [](const std::string& name, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":)" + offsets + "}";
  };
  refuses(raw("{" + entry("a", "[0,8]") + "," + entry("b", "[4,12]") + "}", 12), {"overlap"});
  refuses(raw("{" + entry("a", "[0,8]") + "," + entry("b", "[0,8]") + "}", 8), {"overlap"});
  refuses(raw("{" + entry("a", "[0,8]") + "," + entry("a", "[8,16]") + "}", 16), {"\"a\" twice"});
}

// Reads everything; the only way out besides success is a refusal.
void read_all(const std::string& file) {
  try {
    const SafetensorsReader reader(file);
    for (const std::string& name : reader.names()) {
      std::size_t count = 1;
      for (const std::int64_t dimension : reader.shape(name)) {
        count *= static_cast<std::size_t>(dimension);
      }
      std::vector<float> values(count);
      reader.read(name, values);
    }
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_checkpoint) << error.what();
  }
}

// Header, hashes, names, the length before them and the padding: every byte of a file of ours.
TEST_F(Safetensors, FindsEveryFlippedBit) {
  write_safetensors(file_, two_tensors(), {{"run", "r1"}, {"steps", "2"}});
  std::string bytes = contents(file_);
  const auto read_all_of = [&] {
    const SafetensorsReader reader("flipped", std::as_bytes(std::span(bytes)));
    std::vector<float> matrix(6), vector(3);
    reader.read("w", matrix);
    reader.read("b", vector);
  };
  EXPECT_NO_THROW(read_all_of());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flip = [&] { bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8); };
    flip();
    expect_refusal(Errc::bad_checkpoint, {"flipped"}, read_all_of);
    flip();
    if (HasFailure()) FAIL() << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST_F(Safetensors, TakesAFileFromBeforeHeadersWereHashedAndRefusesALaterFormat) {
  const auto header = [](const std::string& metadata) {
    return R"({"__metadata__":{)" + metadata + R"(},"b":{"dtype":"F32","shape":[0],)" +
           R"("data_offsets":[0,0]}})";
  };
  const SafetensorsReader old(
      directory_.file("old", raw(header(R"("steps":"2","causeway.sha256.b":"")"), 0)));
  EXPECT_FALSE(old.has_header_hash());
  EXPECT_THAT(old.metadata(), testing::UnorderedElementsAre(testing::Pair("steps", "2")));
  refuses(raw(header(R"("causeway.format":"2")"), 0), {"damaged", "lacks its hash"});
  std::string later =
      header(R"("causeway.format":"3","causeway.header":")" + std::string(64, '0') + "\"");
  const auto hash = header_hash(later);
  later.replace(hash->place, 64, hash->computed);
  refuses(raw(later, 0), {"later version"});
}

// If the time grew with the square of the number, nobody would wait for this.
TEST_F(Safetensors, OfManyTensorsAreReadInTimeProportionalToTheirNumber) {
  constexpr int kTensors = 200'000;
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i)
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) +
              R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  const MemoryFile file(raw(header + "}", 0));
  EXPECT_EQ(SafetensorsReader(file.path()).names().size(), kTensors);
}

TEST_F(Safetensors, RefusesEveryTruncation) {
  write_safetensors(file_, two_tensors(), {{"run", "r1"}});
  const std::string bytes = contents(file_);
  for (std::size_t size = 0; size < bytes.size(); ++size) refuses(bytes.substr(0, size), {});
}

TEST_F(Safetensors, SurvivesRandomDamage) {
  write_safetensors(file_, two_tensors(), {{"run", "r1"}});
  const std::string good = contents(file_);
  std::mt19937_64 engine(20240607);
  const auto below = [&](std::size_t bound) { return engine() % bound; };
  for (int turn = 0; turn < 5'000; ++turn) {
    std::string bytes = good;
    for (std::size_t flips = 1 + below(4); flips > 0; --flips) {
      bytes[below(bytes.size())] = static_cast<char>(engine());
    }
    read_all(MemoryFile(bytes).path());
  }
}

}  // namespace
}  // namespace causeway::intra
