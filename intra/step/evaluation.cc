#include "intra/step/evaluation.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "intra/base/error.h"

namespace causeway::intra {
namespace {

class Windows {
 public:
  Windows(const Dataset& dataset, std::int64_t context, std::uint64_t wanted)
      : dataset_(dataset), context_(static_cast<std::size_t>(context)) {
    check_validation(dataset, context);
    const std::uint64_t room = dataset.validation_tokens() - 1;  // the last token is only a target
    count_ = std::clamp<std::uint64_t>(wanted, 1, room / context_);
    stride_ = room / count_;
  }
  std::uint64_t blocks() const { return (count_ + kEvaluationBlock - 1) / kEvaluationBlock; }
  std::uint64_t count() const { return count_; }
  std::uint64_t size_of(std::uint64_t block) const {
    return std::min(kEvaluationBlock, count_ - block * kEvaluationBlock);
  }

  float loss(std::uint64_t block, const BatchLoss& batch_loss) const {
    const std::uint64_t size = size_of(block);
    std::vector<std::int32_t> window(context_ + 1), tokens, targets;
    for (std::uint64_t i = 0; i < size; ++i) {
      dataset_.read_validation((block * kEvaluationBlock + i) * stride_, window);
      tokens.insert(tokens.end(), window.begin(), window.end() - 1);
      targets.insert(targets.end(), window.begin() + 1, window.end());
    }
    return batch_loss(
        {tokens, targets, static_cast<std::int64_t>(size), static_cast<std::int64_t>(context_)});
  }

 private:
  const Dataset& dataset_;
  std::size_t context_;
  std::uint64_t count_ = 0, stride_ = 0;
};

}  // namespace

void check_validation(const Dataset& dataset, std::int64_t context) {
  if (dataset.validation_tokens() > static_cast<std::uint64_t>(context)) return;
  throw std::system_error(Errc::bad_data,
                          fmt::format("the validation part has {} tokens, but one sequence takes "
                                      "{}; raise data.validation_fraction or give more data",
                                      dataset.validation_tokens(), context + 1));
}

double validation_loss(std::int64_t context, const BatchLoss& loss_of, const Dataset& dataset,
                       std::uint64_t sequences, Collective& group) {
  const Windows windows(dataset, context, sequences);
  std::vector<double> own;
  for (std::uint64_t block = group.rank(); block < windows.blocks(); block += group.size()) {
    own.push_back(windows.loss(block, loss_of) * static_cast<double>(windows.size_of(block)));
  }
  const auto gathered = group.all_gather(std::as_bytes(std::span(own)));
  double sum = 0;
  for (std::uint64_t block = 0; block < windows.blocks(); ++block) {
    const auto& bytes = gathered[block % group.size()];
    const std::size_t at = block / group.size() * sizeof(double);
    assert(at + sizeof(double) <= bytes.size());
    double loss = 0;
    std::memcpy(&loss, bytes.data() + at, sizeof loss);
    sum += loss;
  }
  return sum / static_cast<double>(windows.count());
}

double validation_loss(Model& model, std::span<const float> params, const Dataset& dataset,
                       std::uint64_t sequences, Collective& group) {
  return validation_loss(
      model.options().context, [&](const Batch& batch) { return model.evaluate(batch, params); },
      dataset, sequences, group);
}

std::vector<BlockLoss> block_losses(Model& model, std::span<const float> params,
                                    const Dataset& dataset, std::uint64_t sequences) {
  const Windows windows(dataset, model.options().context, sequences);
  std::vector<BlockLoss> losses;
  for (std::uint64_t block = 0; block < windows.blocks(); ++block) {
    const float loss =
        windows.loss(block, [&](const Batch& batch) { return model.evaluate(batch, params); });
    losses.push_back({windows.size_of(block), loss});
  }
  return losses;
}

}  // namespace causeway::intra
