#include "intra/cuda/step/device_bf16_sums.h"

#include <cassert>

#include "intra/cuda/step/device_stepper.h"
#include "intra/cuda/step/mirror.h"

namespace causeway::intra::cuda {
namespace {

constexpr std::size_t kPackWords = kPack / 2;

template <typename T>
AddBuckets<T> add_parts(std::span<const float> parts, std::size_t packs, std::span<float> sum) {
  const std::size_t ranks = packs == 0 ? 0 : parts.size() / (packs * kPackWords);
  assert(parts.size() == ranks * packs * kPackWords);
  return {static_cast<std::int64_t>(packs), static_cast<std::int64_t>(ranks),
          reinterpret_cast<const Pack<Bfloat16>*>(parts.data()),
          reinterpret_cast<Pack<T>*>(sum.data())};
}

// What it is made of, which its base class refers to.
struct Bf16Means {
  Bf16Means(Collective* group, Collective& hosts, Backend& backend, const Bf16Room& room)
      : queue(backend.beside()),
        by_way_of_hosts(group == nullptr ? make_host_sums(hosts, *queue) : nullptr),
        ranks(group == nullptr ? *by_way_of_hosts : *group),
        own_memory(backend),
        received_memory(backend),
        own(own_memory.at_least(room.own), room.own),
        received(received_memory.at_least(room.received), room.received) {}

  std::unique_ptr<Queue> queue;
  std::unique_ptr<Collective> by_way_of_hosts;
  Collective& ranks;
  DeviceBuffer<float> own_memory, received_memory;
  std::span<float> own, received;
};

class DeviceBf16Sums final : private Bf16Means, public Bf16Sums {
 public:
  DeviceBf16Sums(Collective* group, Collective& hosts, Backend& backend, const Bf16Room& room)
      : Bf16Means(group, hosts, backend, room), Bf16Sums(ranks, own, received) {}

 protected:
  void round(std::span<const float> values, std::span<float> words) override {
    assert(values.size() % kPack == 0 && words.size() == values.size() / 2);
    run(RoundBucket{static_cast<std::int64_t>(values.size() / kPack),
                    reinterpret_cast<const Pack<float>*>(values.data()),
                    reinterpret_cast<Pack<Bfloat16>*>(words.data())});
  }
  void add(std::span<const float> parts, std::span<float> sum) override {
    assert(sum.size() % kPack == 0);
    run(add_parts<float>(parts, sum.size() / kPack, sum));
  }
  void add_and_round(std::span<const float> parts, std::span<float> words) override {
    assert(words.size() % kPackWords == 0);
    run(add_parts<Bfloat16>(parts, words.size() / kPackWords, words));
  }

 private:
  void run(const OuterJob& job) {
    queue->run(job);
    queue->point()->wait();
  }
};

}  // namespace

std::unique_ptr<Collective> make_device_bf16_sums(Collective* group, Collective& hosts,
                                                  Backend& backend, const Bf16Room& room) {
  return std::make_unique<DeviceBf16Sums>(group, hosts, backend, room);
}

}  // namespace causeway::intra::cuda
