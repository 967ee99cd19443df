#include <algorithm>

#include "intra/cuda/step/device_transformer_of.h"

namespace causeway::intra::cuda {

template <typename T>
void DeviceTransformerOf<T>::report(const FlatRange& range) {
  if (*ready_ && range.count > 0) (*ready_)(range.offset, range.count);
}

template <typename T>
void DeviceTransformerOf<T>::backward() {
  backward_head();
  for (std::size_t layer = network_.blocks.size(); layer-- > 0;) {
    backward_mlp(layer);
    backward_attention(layer);
  }
  backward_embedding();
}

// Losses, and the gradient of the residual stream after the last block.
template <typename T>
void DeviceTransformerOf<T>::backward_head() {
  Linear head = network_.head;
  head.out = logit_stride(options_.model);
  head.y_stride = head.out;
  for (std::int64_t first = 0; first < rows(); first += buffers_.logit_rows) {
    const std::int64_t count = std::min(buffers_.logit_rows, rows() - first);
    const std::int64_t at = first * options_.model.width;
    classify(first, count, true);
    weight_gradient(head, count, buffers_.head_in + at, buffers_.logits);
    Product product = product_of<T>(count, head.in, head.out);
    product.a = {buffers_.logits, head.y_stride, false};
    product.b = {weight(head.weights.front()), head.in, false};
    product.c = buffers_.branch + at;
    product.c_stride = head.x_stride;
    backend_.multiply(product);
  }
  backend_.run(AddLosses{rows(), buffers_.losses, scalars_, result_});
  if (!network_.tied_head) report(network_.head.weights.front());
  backend_.clear(buffers_.gradient,
                 static_cast<std::size_t>(rows() * options_.model.width) * sizeof(T));
  backward_norm(network_.final_norm, buffers_.output, buffers_.output_statistics);
}

// dW += dy^T x.
template <typename T>
void DeviceTransformerOf<T>::weight_gradient(const Linear& linear, std::int64_t rows, const T* x,
                                             const T* dy) {
  Product product = product_of<T>(linear.out, linear.in, rows);
  product.result = Element::fp32;
  product.a = {dy + linear.column, linear.y_stride, true};
  product.b = {x, linear.x_stride, false};
  product.c = grad(linear.weights.front());
  product.c_stride = linear.in;
  product.accumulate = true;
  backend_.multiply(product);
}

// into += the sum of the stripes' partial sums.
template <typename T>
void DeviceTransformerOf<T>::fold(std::int64_t stripes, const Pack<float>* partials,
                                  const FlatRange& into) {
  if (into.count == 0) return;
  backend_.run(FoldStripes{static_cast<std::int64_t>(into.count / kPack), stripes, partials,
                           packs_of(grad(into))});
  report(into);
}

template <typename T>
void DeviceTransformerOf<T>::bias_gradient(const Linear& linear, const T* dy) {
  if (linear.bias.count == 0) return;
  const Stripes stripes = stripes_of(rows(), linear.y_stride / kPack);
  backend_.run(ColumnSums<T>{stripes, packs_of(dy), buffers_.partials[0]});
  fold(stripes.stripes, buffers_.partials[0], linear.bias);
}

// Linear layers that share the input x, from the last to the first. Weight gradients come first, so
// that they can be sent while dx is computed.
template <typename T>
void DeviceTransformerOf<T>::backward_linears(std::span<const Linear> linears, const T* x,
                                              const T* dy, T* dx, const T* before_gelu) {
  for (std::size_t i = linears.size(); i-- > 0;) {
    const Linear& linear = linears[i];
    bias_gradient(linear, dy);
    weight_gradient(linear, rows(), x, dy);
    for (auto tensor = linear.weights.rbegin(); tensor != linear.weights.rend(); ++tensor) {
      report(*tensor);
    }
    Product product = product_of<T>(rows(), linear.in, linear.out);
    product.a = {dy + linear.column, linear.y_stride, false};
    product.b = {weight(linear.weights.front()), linear.in, false};
    product.c = dx;
    product.c_stride = linear.x_stride;
    product.accumulate = i + 1 < linears.size();
    if (before_gelu != nullptr) {
      product.epilogue = Product::Epilogue::gelu_gradient;
      product.before_gelu = const_cast<T*>(before_gelu);
    }
    backend_.multiply(product);
  }
}

// The gradient of a residual branch's output: the residual stream's, through dropout.
template <typename T>
const T* DeviceTransformerOf<T>::branch_gradient(const Dropout& dropout) {
  if (dropout.probability == 0) return buffers_.gradient;
  backend_.run(Drop<T>{rows(), width_packs(), rows_.length, dropout, packs_of(buffers_.gradient),
                       packs_of(buffers_.branch)});
  return buffers_.branch;
}

// gradient += the norm's gradient for buffers_.branch.
template <typename T>
void DeviceTransformerOf<T>::backward_norm(const Norm& norm, const T* x,
                                           const Statistics* statistics) {
  const bool centred = norm.bias.count > 0, joined = width_packs() <= NormBackward<T>::kPacksMax;
  const Stripes stripes = joined ? stripes_of(rows(), width_packs(), NormBackward<T>::kStripesMax)
                                 : stripes_of(rows(), width_packs());
  const Pack<T>* dy = packs_of(buffers_.branch);
  Pack<T>* gradient = packs_of(buffers_.gradient);
  const Pack<float>* weight = packs_of(param(norm.weight));
  Pack<float>* of_weight = buffers_.partials[0];
  Pack<float>* of_bias = centred ? buffers_.partials[1] : nullptr;
  if (joined) {
    backend_.run(NormBackward<T>{stripes.stripes, stripes, packs_of(x), statistics, weight, dy,
                                 gradient, of_weight, of_bias});
  } else {
    backend_.run(NormColumnSums<T>{stripes, packs_of(x), statistics, dy, of_weight, of_bias});
    backend_.run(NormGradient<T>{rows(), width_packs(), packs_of(x), statistics, weight, centred,
                                 dy, gradient});
  }
  fold(stripes.stripes, buffers_.partials[1], norm.bias);
  fold(stripes.stripes, buffers_.partials[0], norm.weight);
}

template <typename T>
void DeviceTransformerOf<T>::backward_mlp(std::size_t layer) {
  const Block& block = network_.blocks[layer];
  const DecoderBlock<T>& kept = buffers_.blocks[layer];
  if (options_.recompute >= 1) activate(kept);
  const T* dy = branch_gradient(dropout(Site::mlp_branch, layer));
  T* d_in = buffers_.wide_gradient;
  if (gpt2()) {
    backward_linears({&block.mlp_out, 1}, kept.hidden, dy, d_in, kept.hidden_in);
  } else {
    backward_linears({&block.mlp_out, 1}, kept.hidden, dy, buffers_.wide);
    backend_.run(SwigluGradient<T>{rows(), options_.model.hidden / kPack, packs_of(kept.hidden_in),
                                   packs_of(buffers_.wide), packs_of(d_in)});
  }
  if (options_.recompute >= 2) {
    add_and_normalise(kept.middle, nullptr, {}, block.mlp_norm, nullptr, kept.mlp_statistics,
                      kept.mlp_in);
  }
  backward_linears(block.mlp_in, kept.mlp_in, d_in, buffers_.branch);
  backward_norm(block.mlp_norm, kept.middle, kept.mlp_statistics);
}

template <typename T>
void DeviceTransformerOf<T>::backward_attention(std::size_t layer) {
  const Block& block = network_.blocks[layer];
  const DecoderBlock<T>& kept = buffers_.blocks[layer];
  backward_linears({&block.attention_out, 1}, kept.attention_out,
                   branch_gradient(dropout(Site::attention_branch, layer)), buffers_.wide);
  AttentionArrays<T> arrays = attention(layer);
  arrays.d_out = buffers_.wide;
  arrays.d_qkv = buffers_.wide_gradient;
  backend_.attend(arrays);
  rotate(buffers_.wide_gradient, -1);
  if (options_.recompute >= 2) {
    add_and_normalise(kept.input, nullptr, {}, block.attention_norm, nullptr,
                      kept.attention_statistics, kept.attention_in);
  }
  backward_linears(block.qkv, kept.attention_in, buffers_.wide_gradient, buffers_.branch);
  backward_norm(block.attention_norm, kept.input, kept.attention_statistics);
}

template <typename T>
void DeviceTransformerOf<T>::backward_embedding() {
  const T* gradient = branch_gradient(dropout(Site::embedding));
  if (network_.position_embedding.count > 0) {
    backend_.run(PositionGradient<T>{rows_.batch, rows_.length, width_packs(), packs_of(gradient),
                                     packs_of(grad(network_.position_embedding))});
    report(network_.position_embedding);
  }
  const SortedTokens tokens{rows(),
                            width_packs(),
                            buffers_.sorted,
                            buffers_.token_parts[0],
                            buffers_.token_parts[1],
                            packs_of(grad(network_.token_embedding))};
  const std::int64_t blocks = token_blocks(rows());
  backend_.run(TokenGradient<T>{blocks, tokens, buffers_.order, packs_of(gradient)});
  backend_.run(FoldTokens{blocks, tokens});
  report(network_.token_embedding);
}

template void DeviceTransformerOf<float>::backward();
template void DeviceTransformerOf<Bfloat16>::backward();

}  // namespace causeway::intra::cuda
