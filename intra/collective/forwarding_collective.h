// What a group is that hands everything to another one: the base of groups that differ from
// another in some operations.
#pragma once

#include "intra/collective/collective.h"

namespace causeway::intra {

class ForwardingCollective : public Collective {
 public:
  explicit ForwardingCollective(Collective& group) : group_(group) {}  // which outlives it

  std::size_t rank() const override { return group_.rank(); }
  std::size_t size() const override { return group_.size(); }
  void all_reduce_sum(std::span<float> values) override { group_.all_reduce_sum(values); }
  void reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts) override {
    group_.reduce_scatter_sum(values, counts);
  }
  void all_gather_parts(std::span<float> values, std::span<const std::size_t> counts) override {
    group_.all_gather_parts(values, counts);
  }
  void broadcast(std::span<std::byte> bytes, std::size_t root) override {
    group_.broadcast(bytes, root);
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    return group_.all_gather(mine);
  }
  void barrier() override { group_.barrier(); }

 protected:
  Collective& group() { return group_; }

 private:
  Collective& group_;
};

}  // namespace causeway::intra
