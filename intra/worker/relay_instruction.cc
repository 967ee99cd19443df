#include "intra/worker/relay_instruction.h"

#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway::intra {
namespace {

using diloco::Apply;
using diloco::Collect;
using diloco::Continue;
using diloco::Finish;
using diloco::Instruction;
using diloco::MappedBytes;
using diloco::Restore;
using diloco::Train;

enum class Kind : std::uint8_t { train, go_on, collect, apply, restore, finish };

// Both ends are ranks of one program on one host, so plain copies of plain values do.
class Writer {
 public:
  template <typename T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(std::as_bytes(std::span(&value, 1)));
  }
  void bytes(std::span<const std::byte> bytes) {
    value(std::uint64_t{bytes.size()});
    append(bytes);
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void append(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <typename T>
  T value() {
    T value{};
    const auto from = take(sizeof value);
    std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> bytes() { return take(value<std::uint64_t>()); }
  bool at_end() const { return in_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t size) {
    assert(size <= in_.size());
    const auto taken = in_.first(size);
    in_ = in_.subspan(size);
    return taken;
  }
  std::span<const std::byte> in_;
};

MappedBytes map(std::span<const std::byte> bytes) {
  return {diloco::SealedBytes(bytes).share().release(), bytes.size()};
}

struct Serialise {
  Writer& out;
  void operator()(const Train& train) const {
    out.value(Kind::train);
    out.value(train);
  }
  void operator()(const Continue& order) const {
    out.value(Kind::go_on);
    out.value(order);
  }
  void operator()(const Collect& order) const {
    out.value(Kind::collect);
    out.value(order);
  }
  void operator()(const Apply& apply) const {
    out.value(Kind::apply);
    const std::string record = serialize(apply.record);
    out.bytes(std::as_bytes(std::span(record)));
    for (const MappedBytes& payload : apply.payloads) out.bytes(payload.bytes());
  }
  void operator()(const Restore& restore) const {
    out.value(Kind::restore);
    out.value(restore.version);
    out.value(restore.state);
    out.bytes(restore.snapshot.bytes());
  }
  void operator()(const Finish& finish) const {
    out.value(Kind::finish);
    out.value(finish);
  }
};

Instruction parse_apply(Reader& in) {
  const auto record = in.bytes();
  Apply apply;
  apply.record = diloco::parse_commit_record(
      std::string(reinterpret_cast<const char*>(record.data()), record.size()));
  while (!in.at_end()) apply.payloads.push_back(map(in.bytes()));
  return apply;
}

Instruction parse(Reader in) {
  switch (in.value<Kind>()) {
    case Kind::train:
      return in.value<Train>();
    case Kind::go_on:
      return in.value<Continue>();
    case Kind::collect:
      return in.value<Collect>();
    case Kind::apply:
      return parse_apply(in);
    case Kind::restore: {
      const auto version = in.value<diloco::Round>();
      const auto state = in.value<diloco::Digest>();
      return Restore{version, state, map(in.bytes())};
    }
    case Kind::finish:
      return in.value<Finish>();
  }
  assert(false);
  std::abort();
}

}  // namespace

Instruction relay_instruction(Collective& group, std::optional<Instruction> instruction) {
  assert(instruction.has_value() == (group.rank() == 0));
  if (group.size() == 1) return std::move(*instruction);
  Writer writer;
  if (instruction) std::visit(Serialise{writer}, *instruction);
  std::vector<std::byte> bytes = writer.take();
  std::uint64_t size = bytes.size();
  group.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  bytes.resize(size);
  group.broadcast(bytes, 0);
  return instruction ? std::move(*instruction) : parse(Reader(bytes));
}

}  // namespace causeway::intra
