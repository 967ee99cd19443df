#include "bench/reference_step.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace causeway::bench {
namespace {

constexpr float kRootTwoOverPi = 0.7978845608F;

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

void gelu(std::int64_t count, const float* x, float* y) {
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) {
    const float cube = 0.044715F * x[i] * x[i] * x[i];
    y[i] = 0.5F * x[i] * (1.0F + std::tanh(kRootTwoOverPi * (x[i] + cube)));
  }
}

void gelu_backward(std::int64_t count, const float* x, float* dy) {
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) {
    const float t = std::tanh(kRootTwoOverPi * (x[i] + 0.044715F * x[i] * x[i] * x[i]));
    const float slope = kRootTwoOverPi * (1.0F + 3.0F * 0.044715F * x[i] * x[i]);
    dy[i] *= 0.5F * (1.0F + t) + 0.5F * x[i] * (1.0F - t * t) * slope;
  }
}

void add(std::int64_t count, const float* a, const float* b, float* out) {
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace

ReferenceStep::ReferenceStep(const intra::ModelOptions& options, const diloco::Layout& layout,
                             std::int64_t batch, std::int64_t length)
    : options_(options), batch_(batch), length_(length), rows_(batch * length) {
  const auto at = [&](const std::string& name) { return layout.find(name).offset; };
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    return Linear{at(name + ".weight"), at(name + ".bias"), in, out};
  };
  const auto norm = [&](const std::string& name) {
    return Norm{at(name + ".weight"), at(name + ".bias")};
  };
  const auto width = options.width, hidden = options.hidden;
  wte_ = at("transformer.wte.weight");
  wpe_ = at("transformer.wpe.weight");
  final_norm_ = norm("transformer.ln_f");
  head_ = {wte_, 0, width, options.vocabulary};
  for (std::int64_t l = 0; l < options.layers; ++l) {
    const auto p = "transformer.h." + std::to_string(l) + ".";
    Layer layer;
    layer.norm1 = norm(p + "ln_1");
    layer.norm2 = norm(p + "ln_2");
    layer.qkv = linear(p + "attn.c_attn", width, 3 * width);
    layer.projection = linear(p + "attn.c_proj", width, width);
    layer.up = linear(p + "mlp.c_fc", width, hidden);
    layer.down = linear(p + "mlp.c_proj", hidden, width);
    for (auto* buffer :
         {&layer.input, &layer.normed1, &layer.mixed, &layer.middle, &layer.normed2}) {
      buffer->resize(size(rows_ * width));
    }
    layer.mean_inverse1.resize(size(2 * rows_));
    layer.mean_inverse2.resize(size(2 * rows_));
    layer.heads.resize(size(3 * rows_ * width));
    layer.weights.resize(size(batch * options.heads * length * length));
    layer.hidden_in.resize(size(rows_ * hidden));
    layer.hidden.resize(size(rows_ * hidden));
    layers_.push_back(std::move(layer));
  }
  for (auto* buffer : {&output_, &final_normed_, &branch_, &d_residual_, &d_branch_}) {
    buffer->resize(size(rows_ * width));
  }
  final_mean_inverse_.resize(size(2 * rows_));
  logits_.resize(size(rows_ * options.vocabulary));
  d_wide_.resize(size(rows_ * width));
  d_hidden_.resize(size(rows_ * hidden));
  d_heads_.resize(size(3 * rows_ * width));
}

// Eight rows share each weight, as in llm.c.
void ReferenceStep::matmul(const Linear& linear, const float* params, const float* x,
                           float* y) const {
  constexpr std::int64_t kRows = 8;
  const float* weight = params + linear.weight;
  const float* bias = linear.bias == 0 ? nullptr : params + linear.bias;
#pragma omp parallel for collapse(2)
  for (std::int64_t first = 0; first < rows_; first += kRows) {
    for (std::int64_t o = 0; o < linear.out; ++o) {
      const auto count = std::min(kRows, rows_ - first);
      float sums[kRows] = {};
      for (std::int64_t r = 0; r < count; ++r) {
        const float* row = x + (first + r) * linear.in;
        float sum = bias == nullptr ? 0.0F : bias[o];
        for (std::int64_t i = 0; i < linear.in; ++i) sum += row[i] * weight[o * linear.in + i];
        sums[r] = sum;
      }
      for (std::int64_t r = 0; r < count; ++r) y[(first + r) * linear.out + o] = sums[r];
    }
  }
}

void ReferenceStep::matmul_backward(const Linear& linear, const float* params, float* gradients,
                                    const float* x, const float* dy, float* dx) const {
  const float* weight = params + linear.weight;
#pragma omp parallel for
  for (std::int64_t r = 0; r < rows_; ++r) {
    float* out = dx + r * linear.in;
    std::fill_n(out, linear.in, 0.0F);
    for (std::int64_t o = 0; o < linear.out; ++o) {
      const float d = dy[r * linear.out + o];
      for (std::int64_t i = 0; i < linear.in; ++i) out[i] += d * weight[o * linear.in + i];
    }
  }
#pragma omp parallel for
  for (std::int64_t o = 0; o < linear.out; ++o) {
    float* d_weight = gradients + linear.weight + size(o * linear.in);
    for (std::int64_t r = 0; r < rows_; ++r) {
      const float d = dy[r * linear.out + o];
      if (linear.bias != 0) gradients[linear.bias + size(o)] += d;
      for (std::int64_t i = 0; i < linear.in; ++i) d_weight[i] += d * x[r * linear.in + i];
    }
  }
}

void ReferenceStep::norm(const Norm& norm, const float* params, const float* x, float* y,
                         float* mean_inverse) const {
  const auto width = options_.width;
#pragma omp parallel for
  for (std::int64_t r = 0; r < rows_; ++r) {
    const float* row = x + r * width;
    float mean = 0, variance = 0;
    for (std::int64_t i = 0; i < width; ++i) mean += row[i];
    mean /= static_cast<float>(width);
    for (std::int64_t i = 0; i < width; ++i) variance += (row[i] - mean) * (row[i] - mean);
    const float inverse = 1.0F / std::sqrt(variance / static_cast<float>(width) +
                                           static_cast<float>(options_.norm_epsilon));
    for (std::int64_t i = 0; i < width; ++i) {
      y[r * width + i] =
          (row[i] - mean) * inverse * params[norm.weight + size(i)] + params[norm.bias + size(i)];
    }
    mean_inverse[2 * r] = mean;
    mean_inverse[2 * r + 1] = inverse;
  }
}

void ReferenceStep::norm_backward(const Norm& norm, const float* params, float* gradients,
                                  const float* x, const float* mean_inverse, const float* dy,
                                  float* dx) const {
  const auto width = options_.width;
  const float* weight = params + norm.weight;
  for (std::int64_t r = 0; r < rows_; ++r) {
    const float *row = x + r * width, *d = dy + r * width;
    const float mean = mean_inverse[2 * r], inverse = mean_inverse[2 * r + 1];
    float g_mean = 0, gh_mean = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      g_mean += d[i] * weight[i];
      gh_mean += d[i] * weight[i] * (row[i] - mean) * inverse;
    }
    g_mean /= static_cast<float>(width);
    gh_mean /= static_cast<float>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      const float h = (row[i] - mean) * inverse;
      gradients[norm.weight + size(i)] += d[i] * h;
      gradients[norm.bias + size(i)] += d[i];
      dx[r * width + i] += inverse * (d[i] * weight[i] - g_mean - h * gh_mean);
    }
  }
}

void ReferenceStep::attention(Layer& layer) const {
  const auto width = options_.width, head_size = width / options_.heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_size));
#pragma omp parallel for collapse(3)
  for (std::int64_t b = 0; b < batch_; ++b) {
    for (std::int64_t head = 0; head < options_.heads; ++head) {
      for (std::int64_t t = 0; t < length_; ++t) {
        const float* heads = layer.heads.data() + b * length_ * 3 * width + head * head_size;
        float* weights =
            layer.weights.data() + ((b * options_.heads + head) * length_ + t) * length_;
        float top = -1e30F, sum = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          float dot = 0;
          for (std::int64_t i = 0; i < head_size; ++i) {
            dot += heads[t * 3 * width + i] * heads[s * 3 * width + width + i];
          }
          weights[s] = dot * scale;
          top = std::max(top, weights[s]);
        }
        for (std::int64_t s = 0; s <= t; ++s) sum += weights[s] = std::exp(weights[s] - top);
        float* out = layer.mixed.data() + (b * length_ + t) * width + head * head_size;
        std::fill_n(out, head_size, 0.0F);
        for (std::int64_t s = 0; s <= t; ++s) {
          weights[s] /= sum;
          for (std::int64_t i = 0; i < head_size; ++i)
            out[i] += weights[s] * heads[s * 3 * width + 2 * width + i];
        }
      }
    }
  }
}

void ReferenceStep::attention_backward(const Layer& layer, const float* d_mixed,
                                       float* d_heads) const {
  const auto width = options_.width, head_size = width / options_.heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_size));
  std::fill_n(d_heads, 3 * rows_ * width, 0.0F);
#pragma omp parallel for collapse(2)
  for (std::int64_t b = 0; b < batch_; ++b) {
    for (std::int64_t head = 0; head < options_.heads; ++head) {
      const auto base = b * length_ * 3 * width + head * head_size;
      const float* heads = layer.heads.data() + base;
      float* d_head = d_heads + base;
      std::vector<float> d_weights(size(length_));
      for (std::int64_t t = 0; t < length_; ++t) {
        const float* weights =
            layer.weights.data() + ((b * options_.heads + head) * length_ + t) * length_;
        const float* d_out = d_mixed + (b * length_ + t) * width + head * head_size;
        float dot = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          float sum = 0;
          for (std::int64_t i = 0; i < head_size; ++i) {
            sum += d_out[i] * heads[s * 3 * width + 2 * width + i];
            d_head[s * 3 * width + 2 * width + i] += weights[s] * d_out[i];
          }
          d_weights[size(s)] = sum;
          dot += weights[s] * sum;
        }
        for (std::int64_t s = 0; s <= t; ++s) {
          const float d_score = weights[s] * (d_weights[size(s)] - dot) * scale;
          for (std::int64_t i = 0; i < head_size; ++i) {
            d_head[t * 3 * width + i] += d_score * heads[s * 3 * width + width + i];
            d_head[s * 3 * width + width + i] += d_score * heads[t * 3 * width + i];
          }
        }
      }
    }
  }
}

void ReferenceStep::forward_layer(Layer& layer, const float* params, std::vector<float>& output) {
  const auto count = rows_ * options_.width;
  norm(layer.norm1, params, layer.input.data(), layer.normed1.data(), layer.mean_inverse1.data());
  matmul(layer.qkv, params, layer.normed1.data(), layer.heads.data());
  attention(layer);
  matmul(layer.projection, params, layer.mixed.data(), branch_.data());
  add(count, layer.input.data(), branch_.data(), layer.middle.data());
  norm(layer.norm2, params, layer.middle.data(), layer.normed2.data(), layer.mean_inverse2.data());
  matmul(layer.up, params, layer.normed2.data(), layer.hidden_in.data());
  gelu(rows_ * options_.hidden, layer.hidden_in.data(), layer.hidden.data());
  matmul(layer.down, params, layer.hidden.data(), branch_.data());
  add(count, layer.middle.data(), branch_.data(), output.data());
}

void ReferenceStep::backward_layer(Layer& layer, const float* params, float* gradients) {
  matmul_backward(layer.down, params, gradients, layer.hidden.data(), d_residual_.data(),
                  d_hidden_.data());
  gelu_backward(rows_ * options_.hidden, layer.hidden_in.data(), d_hidden_.data());
  matmul_backward(layer.up, params, gradients, layer.normed2.data(), d_hidden_.data(),
                  d_branch_.data());
  norm_backward(layer.norm2, params, gradients, layer.middle.data(), layer.mean_inverse2.data(),
                d_branch_.data(), d_residual_.data());
  matmul_backward(layer.projection, params, gradients, layer.mixed.data(), d_residual_.data(),
                  d_wide_.data());
  attention_backward(layer, d_wide_.data(), d_heads_.data());
  matmul_backward(layer.qkv, params, gradients, layer.normed1.data(), d_heads_.data(),
                  d_branch_.data());
  norm_backward(layer.norm1, params, gradients, layer.input.data(), layer.mean_inverse1.data(),
                d_branch_.data(), d_residual_.data());
}

// logits <- their gradient.
float ReferenceStep::classify(std::span<const std::int32_t> targets) {
  const auto vocabulary = options_.vocabulary;
  double loss = 0;
#pragma omp parallel for reduction(+ : loss)
  for (std::int64_t r = 0; r < rows_; ++r) {
    float* row = logits_.data() + r * vocabulary;
    const auto target = targets[size(r)];
    const float top = *std::max_element(row, row + vocabulary);
    const float target_logit = row[target];
    float sum = 0;
    for (std::int64_t i = 0; i < vocabulary; ++i) sum += row[i] = std::exp(row[i] - top);
    loss += std::log(sum) + top - target_logit;
    for (std::int64_t i = 0; i < vocabulary; ++i) row[i] /= sum * static_cast<float>(rows_);
    row[target] -= 1.0F / static_cast<float>(rows_);
  }
  return static_cast<float>(loss / static_cast<double>(rows_));
}

float ReferenceStep::run(const intra::Batch& batch, const float* params, float* gradients) {
  const auto width = options_.width;
  for (std::int64_t r = 0; r < rows_; ++r) {
    const float* token = params + wte_ + size(batch.tokens[size(r)] * width);
    add(width, token, params + wpe_ + size(r % length_ * width),
        layers_[0].input.data() + r * width);
  }
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    forward_layer(layers_[l], params, l + 1 < layers_.size() ? layers_[l + 1].input : output_);
  }
  norm(final_norm_, params, output_.data(), final_normed_.data(), final_mean_inverse_.data());
  matmul(head_, params, final_normed_.data(), logits_.data());
  const float loss = classify(batch.targets);
  matmul_backward(head_, params, gradients, final_normed_.data(), logits_.data(), d_branch_.data());
  std::ranges::fill(d_residual_, 0.0F);
  norm_backward(final_norm_, params, gradients, output_.data(), final_mean_inverse_.data(),
                d_branch_.data(), d_residual_.data());
  for (std::size_t l = layers_.size(); l-- > 0;) backward_layer(layers_[l], params, gradients);
  for (std::int64_t r = 0; r < rows_; ++r) {
    float* token = gradients + wte_ + size(batch.tokens[size(r)] * width);
    float* position = gradients + wpe_ + size(r % length_ * width);
    add(width, token, d_residual_.data() + r * width, token);
    add(width, position, d_residual_.data() + r * width, position);
  }
  return loss;
}

void ReferenceStep::update(std::span<float> params, std::span<const float> gradients) {
  first_moment_.resize(params.size());
  second_moment_.resize(params.size());
  ++steps_;
  const float correction1 = 1.0F - std::pow(0.9F, static_cast<float>(steps_));
  const float correction2 = 1.0F - std::pow(0.95F, static_cast<float>(steps_));
#pragma omp parallel for
  for (std::size_t i = 0; i < params.size(); ++i) {
    const float m = first_moment_[i] = 0.9F * first_moment_[i] + 0.1F * gradients[i];
    const float v = second_moment_[i] =
        0.95F * second_moment_[i] + 0.05F * gradients[i] * gradients[i];
    params[i] -= 1e-5F * (m / correction1) / (std::sqrt(v / correction2) + 1e-8F);
  }
}

}  // namespace causeway::bench
