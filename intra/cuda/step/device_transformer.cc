#include "intra/cuda/step/device_transformer.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <string>
#include <system_error>

#include "intra/base/error.h"
#include "intra/cuda/step/device_transformer_of.h"
#include "intra/model/network.h"

namespace causeway::intra::cuda {
namespace {

// Logits held at a time: enough for products of full size, and not the gigabytes of a whole batch.
constexpr std::int64_t kLogits = std::int64_t{1} << 30;
constexpr std::int64_t kTileRows = 128;  // of a product

// The fewest parts of about `most` rows, all alike, in whole tiles.
std::int64_t rows_of_part(std::int64_t rows, std::int64_t most) {
  const std::int64_t parts = (rows + most - 1) / most, each = (rows + parts - 1) / parts;
  return std::min(rows, (each + kTileRows - 1) / kTileRows * kTileRows);
}

template <typename T>
DecoderBlock<T> take_block(const ModelOptions& model, const Network& network, std::int64_t rows,
                           Arena& arena) {
  DecoderBlock<T> block{};
  block.input = arena.take<T>(rows * model.width);
  block.attention_statistics = arena.take<Statistics>(rows);
  block.qkv = arena.take<T>(rows * network.qkv_stride);
  block.attention_out = arena.take<T>(rows * model.width);
  block.log_sum_exp = arena.take<float>(rows * model.heads);
  block.middle = arena.take<T>(rows * model.width);
  block.mlp_statistics = arena.take<Statistics>(rows);
  block.hidden_in = arena.take<T>(rows * network.mlp_in_stride);
  return block;
}

}  // namespace

template <typename T>
void DeviceTransformerBuffers<T>::lay_out(const DeviceTransformerOptions& options,
                                          const Network& network, const Rows& shape, Arena& arena) {
  const ModelOptions& model = options.model;
  const std::int64_t rows = shape.count(), width = rows * model.width;
  for (auto* column : {&tokens, &targets, &order, &sorted})
    *column = arena.take<std::int32_t>(rows);

  // What is computed again is shared by all blocks.
  T* const norms = options.recompute >= 2 ? arena.take<T>(width) : nullptr;
  T* const hidden = options.recompute >= 1 ? arena.take<T>(rows * network.hidden_stride) : nullptr;
  blocks.clear();
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer) {
    DecoderBlock<T> block = take_block<T>(model, network, rows, arena);
    const bool keep_norms = options.recompute < 2, keep_hidden = options.recompute < 1;
    block.attention_in = keep_norms ? arena.take<T>(width) : norms;
    block.mlp_in = keep_norms ? arena.take<T>(width) : norms;
    block.hidden = keep_hidden ? arena.take<T>(rows * network.hidden_stride) : hidden;
    blocks.push_back(block);
  }
  output = arena.take<T>(width);
  output_statistics = arena.take<Statistics>(rows);
  head_in = arena.take<T>(width);

  gradient = arena.take<T>(width);
  branch = arena.take<T>(width);
  wide = arena.take<T>(rows * std::max(network.hidden_stride, model.width));
  wide_gradient = arena.take<T>(rows * std::max(network.qkv_stride, network.mlp_in_stride));
  dots = arena.take<float>(rows * model.heads);
  logit_rows = rows_of_part(rows, std::max(kTileRows, kLogits / logit_stride(model)));
  logits = arena.take<T>(logit_rows * logit_stride(model));
  losses = arena.take<float>(rows);
  for (auto& parts : token_parts)
    parts = arena.take<Pack<float>>(token_blocks(rows) * (model.width / kPack));
  const std::int64_t widest = std::max({model.width, network.qkv_stride, network.mlp_in_stride});
  for (auto& partial : partials) {
    partial = arena.take<Pack<float>>(
        std::min(rows * widest / kPack, std::max(kColumnThreads, widest / kPack)));
  }
}

template struct DeviceTransformerBuffers<float>;
template struct DeviceTransformerBuffers<Bfloat16>;

namespace {

constexpr std::size_t kAlignment = 256;

std::int64_t head_size(const ModelOptions& model) {
  return model.width / model.heads;
}

void check_model(const ModelOptions& model) {
  const auto refuse = [](const std::string& why) {
    throw std::system_error(Errc::bad_model, why + "; change it, or train on the CPU");
  };
  if (head_size(model) % kHeadSizeUnit != 0 || head_size(model) > kHeadSizeMax) {
    refuse("a head is model.width / model.heads = " + std::to_string(head_size(model)) +
           " wide; on a GPU it must be a multiple of " + std::to_string(kHeadSizeUnit) +
           " and at most " + std::to_string(kHeadSizeMax));
  }
  if (model.hidden % kPack != 0) {
    refuse("model.hidden is " + std::to_string(model.hidden) +
           "; on a GPU it must be a multiple of " + std::to_string(kPack));
  }
}

}  // namespace

std::size_t slack(const ModelOptions& model) {
  return static_cast<std::size_t>((logit_stride(model) - model.vocabulary) * model.width);
}

template <typename T>
DeviceTransformerOf<T>::DeviceTransformerOf(const DeviceTransformerOptions& options,
                                            const diloco::Layout& layout,
                                            const TrainingSpans& spans, StepResult* result,
                                            Backend& backend)
    : options_(options),
      spans_(spans),
      result_(result),
      backend_(backend),
      network_(options.model, layout, RowStride::packed),
      params_count_(layout.size()),
      scalars_(reinterpret_cast<BatchScalars*>(backend.allocate(sizeof(BatchScalars)))),
      evaluation_(reinterpret_cast<StepResult*>(backend.allocate(sizeof(StepResult)))) {
  if constexpr (!std::is_same_v<T, float>) {
    weights_ =
        reinterpret_cast<T*>(backend.allocate((params_count_ + slack(options.model)) * sizeof(T)));
  }
  if (!gpt2()) upload_rotation();
  Arena measure(nullptr, kAlignment);
  buffers_.lay_out(options_, network_, {options_.batch, options_.model.context}, measure);
  memory_ = backend_.allocate(measure.used());
}

template <typename T>
void DeviceTransformerOf<T>::upload_rotation() {
  const Rotations tables = make_rotations(options_.model);
  const auto place = [&](const std::vector<float>& table) {
    std::byte* on_device = backend_.allocate(table.size() * sizeof(float));
    backend_.upload(table.data(), on_device, table.size() * sizeof(float));
    return reinterpret_cast<Pack<float>*>(on_device);
  };
  cosine_ = place(tables.cosine);
  sine_ = place(tables.sine);
}

template <typename T>
Bfloat16* DeviceTransformerOf<T>::weights() {
  if constexpr (std::is_same_v<T, Bfloat16>) return weights_;
  return nullptr;
}

template <typename T>
void DeviceTransformerOf<T>::params_changed() {
  if (weights_ == nullptr) return;
  backend_.run(Round<T>{static_cast<std::int64_t>(params_count_ / kPack),
                        packs_of<float>(spans_.params.data()), packs_of(weights_)});
}

template <typename T>
void DeviceTransformerOf<T>::begin(const Batch& batch, float probability) {
  assert(batch.batch > 0 && batch.batch <= options_.batch);
  assert(batch.length > 0 && batch.length <= options_.model.context);
  rows_ = {batch.batch, batch.length};
  dropout_ = probability;
  Arena arena(memory_, kAlignment);
  buffers_.lay_out(options_, network_, rows_, arena);
  upload_rows(batch.tokens, buffers_.tokens);
  upload_rows(batch.targets, buffers_.targets);
}

template <typename T>
void DeviceTransformerOf<T>::upload_rows(std::span<const std::int32_t> values, std::int32_t* to) {
  assert(static_cast<std::int64_t>(values.size()) == rows());
  [[maybe_unused]] const auto in_vocabulary = [this](std::int32_t token) {
    return token >= 0 && token < options_.model.vocabulary;
  };
  assert(std::ranges::all_of(values, in_vocabulary));
  backend_.upload(values.data(), to, values.size_bytes());
}

template <typename T>
void DeviceTransformerOf<T>::upload_order(std::span<const std::int32_t> tokens) {
  // A counting sort: the host does this before each step. A token's rows keep their order.
  const auto vocabulary = static_cast<std::size_t>(options_.model.vocabulary);
  std::vector<std::size_t> next(vocabulary + 1);
  for (const std::int32_t token : tokens) ++next[static_cast<std::size_t>(token) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::int32_t> order(tokens.size()), sorted(tokens.size());
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const std::size_t place = next[static_cast<std::size_t>(tokens[row])]++;
    order[place] = static_cast<std::int32_t>(row);
    sorted[place] = tokens[row];
  }
  backend_.upload(order.data(), buffers_.order, order.size() * sizeof(std::int32_t));
  backend_.upload(sorted.data(), buffers_.sorted, sorted.size() * sizeof(std::int32_t));
}

template <typename T>
std::uint64_t DeviceTransformerOf<T>::name_of(Work work) const {
  return (static_cast<std::uint64_t>(rows_.batch) << 24 | static_cast<std::uint64_t>(rows_.length))
             << 1 |
         static_cast<std::uint64_t>(work);
}

template <typename T>
void DeviceTransformerOf<T>::train(const Batch& batch, const DropoutKey& dropout, float scale,
                                   const Model::GradientReady& ready) {
  begin(batch, options_.model.dropout);
  upload_order(batch.tokens);
  const BatchScalars scalars{.dropout_key = dropout_key(dropout),
                             .first_sample = dropout.first_sample,
                             .gradient_scale = scale / static_cast<float>(rows())};
  backend_.upload(&scalars, scalars_, sizeof scalars);
  ready_ = &ready;
  const auto work = [this] {
    forward();
    backward();
  };
  if (ready) {
    work();  // what is called when a range is ready may not be repeated
  } else {
    backend_.repeat(name_of(Work::train), work);
  }
}

template <typename T>
double DeviceTransformerOf<T>::evaluate(const Batch& batch) {
  begin(batch, 0);
  const BatchScalars scalars{.gradient_scale = 1.0F / static_cast<float>(rows())};
  backend_.upload(&scalars, scalars_, sizeof scalars);
  backend_.clear(evaluation_, sizeof(StepResult));
  backend_.repeat(name_of(Work::evaluate), [this] {
    forward();
    for (std::int64_t first = 0; first < rows(); first += buffers_.logit_rows) {
      classify(first, std::min(buffers_.logit_rows, rows() - first), false);
    }
    backend_.run(AddLosses{rows(), buffers_.losses, scalars_, evaluation_});
  });
  StepResult result;
  backend_.download(evaluation_, &result, sizeof result);
  return result.loss;
}

template <typename T>
Dropout DeviceTransformerOf<T>::dropout(Site site, std::size_t layer) const {
  constexpr std::uint32_t kSitesPerLayer = 3;
  return {scalars_,
          static_cast<std::uint32_t>(site) + kSitesPerLayer * static_cast<std::uint32_t>(layer),
          dropout_};
}

template <typename T>
AttentionArrays<T> DeviceTransformerOf<T>::attention(std::size_t layer) const {
  const ModelOptions& model = options_.model;
  const DecoderBlock<T>& block = buffers_.blocks[layer];
  AttentionArrays<T> arrays;
  arrays.shape = {rows_.batch, rows_.length, model.heads, model.kv_heads, head_size(model)};
  arrays.scale = 1.0F / std::sqrt(static_cast<float>(head_size(model)));
  arrays.dropout = dropout(Site::attention, layer);
  arrays.qkv = block.qkv;
  arrays.out = block.attention_out;
  arrays.log_sum_exp = block.log_sum_exp;
  arrays.dots = buffers_.dots;
  return arrays;
}

template <typename T>
const float* DeviceTransformerOf<T>::param(const FlatRange& range) const {
  return range.count == 0 ? nullptr : spans_.params.data() + range.offset;
}

template <typename T>
float* DeviceTransformerOf<T>::grad(const FlatRange& range) const {
  return range.count == 0 ? nullptr : spans_.gradients.data() + range.offset;
}

template <typename T>
const T* DeviceTransformerOf<T>::weight(const FlatRange& range) const {
  if (range.count == 0) return nullptr;
  if constexpr (std::is_same_v<T, float>) return spans_.params.data() + range.offset;
  return weights_ + range.offset;
}

template class DeviceTransformerOf<float>;
template class DeviceTransformerOf<Bfloat16>;

std::unique_ptr<DeviceTransformer> make_device_transformer(const DeviceTransformerOptions& options,
                                                           const diloco::Layout& layout,
                                                           const TrainingSpans& spans,
                                                           StepResult* result, Backend& backend) {
  check_model(options.model);
  if (options.model.precision == ModelOptions::Precision::fp32) {
    return std::make_unique<DeviceTransformerOf<float>>(options, layout, spans, result, backend);
  }
  return std::make_unique<DeviceTransformerOf<Bfloat16>>(options, layout, spans, result, backend);
}

}  // namespace causeway::intra::cuda
