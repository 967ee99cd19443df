#include "intra/cuda/step/device_transformer_of.h"

namespace causeway::intra::cuda {

template <typename T>
void DeviceTransformerOf<T>::forward() {
  const auto& first = buffers_.blocks.front();
  const float* by_position = param(network_.position_embedding);
  backend_.run(Embed<T>{rows(), width_packs(), rows_.length, buffers_.tokens,
                        packs_of<float>(param(network_.token_embedding)),
                        by_position == nullptr ? nullptr : packs_of<float>(by_position),
                        dropout(Site::embedding), packs_of(first.input)});
  add_and_normalise(first.input, nullptr, {}, network_.blocks.front().attention_norm, nullptr,
                    first.attention_statistics, first.attention_in);
  for (std::size_t layer = 0; layer < network_.blocks.size(); ++layer) {
    forward_attention(layer);
    forward_mlp(layer);
  }
}

// sum = x + dropout(branch), and its norm. Without a branch: the norm of x.
template <typename T>
void DeviceTransformerOf<T>::add_and_normalise(const T* x, const T* branch, const Dropout& dropout,
                                               const Norm& norm, T* sum, Statistics* statistics,
                                               T* normalised) {
  AddNorm<T> job;
  job.rows = rows();
  job.packs = width_packs();
  job.x = packs_of(x);
  if (branch != nullptr) job.branch = packs_of(branch);
  job.dropout = dropout;
  job.length = rows_.length;
  if (sum != nullptr) job.sum = packs_of(sum);
  job.weight = packs_of(param(norm.weight));
  if (norm.bias.count > 0) job.bias = packs_of(param(norm.bias));
  job.epsilon = static_cast<float>(options_.model.norm_epsilon);
  job.statistics = statistics;
  job.normalised = packs_of(normalised);
  backend_.run(job);
}

// y = x W^T, then what the epilogue says.
template <typename T>
void DeviceTransformerOf<T>::multiply(const Linear& linear, std::int64_t rows, const T* x, T* y,
                                      Product::Epilogue epilogue, T* before_gelu) {
  Product product = product_of<T>(rows, linear.out, linear.in);
  product.a = {x, linear.x_stride, false};
  product.b = {weight(linear.weights.front()), linear.in, true};
  product.c = y + linear.column;
  product.c_stride = linear.y_stride;
  product.epilogue = epilogue;
  product.bias = weight(linear.bias);
  product.before_gelu = before_gelu;
  if (product.bias != nullptr && epilogue == Product::Epilogue::none) {
    product.epilogue = Product::Epilogue::bias;
  }
  backend_.multiply(product);
}

template <typename T>
void DeviceTransformerOf<T>::rotate(T* qkv, float direction) {
  if (cosine_ == nullptr) return;
  const ModelOptions& model = options_.model;
  backend_.run(Rotate<T>{rows(), network_.qkv_stride / kPack, rows_.length,
                         model.heads + model.kv_heads, model.width / model.heads / 2 / kPack,
                         cosine_, sine_, direction, packs_of(qkv)});
}

template <typename T>
void DeviceTransformerOf<T>::forward_attention(std::size_t layer) {
  const Block& block = network_.blocks[layer];
  const DecoderBlock<T>& kept = buffers_.blocks[layer];
  for (const Linear& linear : block.qkv) multiply(linear, rows(), kept.attention_in, kept.qkv);
  rotate(kept.qkv, 1);
  backend_.attend(attention(layer));
  multiply(block.attention_out, rows(), kept.attention_out, buffers_.branch);
  add_and_normalise(kept.input, buffers_.branch, dropout(Site::attention_branch, layer),
                    block.mlp_norm, kept.middle, kept.mlp_statistics, kept.mlp_in);
}

// hidden from hidden_in.
template <typename T>
void DeviceTransformerOf<T>::activate(const DecoderBlock<T>& block) {
  const std::int64_t packs = options_.model.hidden / kPack;
  if (gpt2()) {
    backend_.run(Gelu<T>{rows() * packs, packs_of(block.hidden_in), packs_of(block.hidden)});
  } else {
    backend_.run(Swiglu<T>{rows(), packs, packs_of(block.hidden_in), packs_of(block.hidden)});
  }
}

template <typename T>
void DeviceTransformerOf<T>::forward_mlp(std::size_t layer) {
  const Block& block = network_.blocks[layer];
  const DecoderBlock<T>& kept = buffers_.blocks[layer];
  if (gpt2()) {
    multiply(block.mlp_in.front(), rows(), kept.mlp_in, kept.hidden, Product::Epilogue::bias_gelu,
             kept.hidden_in);
  } else {
    for (const Linear& linear : block.mlp_in) multiply(linear, rows(), kept.mlp_in, kept.hidden_in);
    activate(kept);
  }
  multiply(block.mlp_out, rows(), kept.hidden, buffers_.branch);

  const Dropout dropped = dropout(Site::mlp_branch, layer);
  if (layer + 1 < network_.blocks.size()) {
    const DecoderBlock<T>& next = buffers_.blocks[layer + 1];
    add_and_normalise(kept.middle, buffers_.branch, dropped,
                      network_.blocks[layer + 1].attention_norm, next.input,
                      next.attention_statistics, next.attention_in);
  } else {
    add_and_normalise(kept.middle, buffers_.branch, dropped, network_.final_norm, buffers_.output,
                      buffers_.output_statistics, buffers_.head_in);
  }
}

// The logits of rows from `first` on, their losses, and their gradients in place.
template <typename T>
void DeviceTransformerOf<T>::classify(std::int64_t first, std::int64_t count, bool gradients) {
  Linear head = network_.head;
  head.out = logit_stride(options_.model);
  head.y_stride = head.out;
  multiply(head, count, buffers_.head_in + first * options_.model.width, buffers_.logits);
  backend_.run(Classify<T>{count, head.out / kPack, options_.model.vocabulary,
                           packs_of(buffers_.logits), buffers_.targets + first, gradients, scalars_,
                           buffers_.losses + first});
}

// What the other files of the class call.
template void DeviceTransformerOf<float>::forward();
template void DeviceTransformerOf<float>::classify(std::int64_t, std::int64_t, bool);
template void DeviceTransformerOf<float>::add_and_normalise(const float*, const float*,
                                                            const Dropout&, const Norm&, float*,
                                                            Statistics*, float*);
template void DeviceTransformerOf<float>::activate(const DecoderBlock<float>&);
template void DeviceTransformerOf<float>::rotate(float*, float);
template void DeviceTransformerOf<Bfloat16>::forward();
template void DeviceTransformerOf<Bfloat16>::classify(std::int64_t, std::int64_t, bool);
template void DeviceTransformerOf<Bfloat16>::add_and_normalise(const Bfloat16*, const Bfloat16*,
                                                               const Dropout&, const Norm&,
                                                               Bfloat16*, Statistics*, Bfloat16*);
template void DeviceTransformerOf<Bfloat16>::activate(const DecoderBlock<Bfloat16>&);
template void DeviceTransformerOf<Bfloat16>::rotate(Bfloat16*, float);

}  // namespace causeway::intra::cuda
