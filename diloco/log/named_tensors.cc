#include "diloco/log/named_tensors.h"

#include <algorithm>

#include "diloco/log/wire.h"

namespace causeway::diloco {
namespace {

std::string shape_text(const NamedTensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.shape)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + ")";
}

const NamedTensor* find(const NamedTensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace

std::string other_tensor(const NamedTensors& here, const NamedTensors& there,
                         const std::string& region) {
  for (const NamedTensor& own : here) {
    const NamedTensor* const other = find(there, own.name);
    if (other == nullptr) return region + " has no tensor \"" + own.name + "\", which is here";
    if (own.shape != other->shape) {
      return "the tensor \"" + own.name + "\" has the shape " + shape_text(own) + " here and " +
             shape_text(*other) + " in " + region;
    }
  }
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (find(here, there[i].name) == nullptr)
      return region + " has a tensor \"" + there[i].name + "\", which is not here";
    if (here[i].name == there[i].name) continue;
    return "tensor number " + std::to_string(i + 1) + " is \"" + here[i].name + "\" here and \"" +
           there[i].name + "\" in " + region;
  }
  return {};
}

std::optional<std::string> other_values(const NamedTensors& here, const NamedTensors& there) {
  const auto differ = [](const NamedTensor& a, const NamedTensor& b) {
    return a.values && b.values && a.values != b.values;
  };
  const auto found = std::ranges::mismatch(
      here, there, [&](const NamedTensor& a, const NamedTensor& b) { return !differ(a, b); });
  return found.in1 == here.end() || found.in2 == there.end() ? std::nullopt
                                                             : std::optional(found.in1->name);
}

void encode(const NamedTensors& tensors, wire::Tensors* out) {
  for (const NamedTensor& tensor : tensors) {
    wire::Tensor* one = out->add_tensors();
    one->set_name(tensor.name);
    for (const std::int64_t size : tensor.shape) one->add_shape(size);
    if (tensor.values) encode(*tensor.values, one->mutable_values());
  }
}

NamedTensors decode(const wire::Tensors& message) {
  NamedTensors tensors;
  for (const wire::Tensor& one : message.tensors()) {
    NamedTensor tensor{.name = one.name(), .shape = {one.shape().begin(), one.shape().end()}};
    if (!one.values().empty()) tensor.values = decode_digest(one.values());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::string serialize(const NamedTensors& tensors) {
  wire::Tensors out;
  encode(tensors, &out);
  return out.SerializeAsString();
}

NamedTensors parse_tensors(const std::string& bytes) {
  wire::Tensors message;
  if (!message.ParseFromString(bytes)) throw_malformed("a list of tensors cannot be parsed");
  return decode(message);
}

}  // namespace causeway::diloco
