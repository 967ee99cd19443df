// Element-wise pieces: activations, sums, and rounding to bfloat16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "intra/model/kernels/pointwise_kernels.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "intra/model/kernels/kernels.h"
#include "intra/model/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::intra::HWY_NAMESPACE {

void add(std::int64_t count, const float* a, const float* b, float* out) {
  for_vectors(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  });
}

void add_columns(std::int64_t rows, std::int64_t columns, std::int64_t stride, const float* values,
                 float* sums) {
  // Four rows at once, so that the sums are loaded and stored a quarter as often.
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4, values += 4 * stride) {
    for_vectors(columns, [&](auto d, std::int64_t i) HWY_ATTR {
      const auto a = hn::Add(hn::LoadU(d, values + i), hn::LoadU(d, values + stride + i));
      const auto b =
          hn::Add(hn::LoadU(d, values + 2 * stride + i), hn::LoadU(d, values + 3 * stride + i));
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Add(a, b)), d, sums + i);
    });
  }
  for (; r < rows; ++r, values += stride) add(columns, sums, values, sums);
}

// gelu(x) = x * sigmoid(2u) with u = sqrt(2 / pi) (x + 0.044715 x^3), because 1 + tanh(u) = 2
// sigmoid(2u).
constexpr float kTwiceRootTwoOverPi = 1.5957691216057308F;
constexpr float kCubic = 0.044715F;

template <class D, class V>
HWY_INLINE V gelu_gate(D d, V x, V square) {
  const auto inner = hn::MulAdd(hn::Mul(square, hn::Set(d, kCubic)), x, x);
  return sigmoid(d, hn::Mul(inner, hn::Set(d, kTwiceRootTwoOverPi)));
}

void gelu_forward(std::int64_t count, const float* x, float* y) {
  for_vectors(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i);
    hn::StoreU(hn::Mul(value, gelu_gate(d, value, hn::Mul(value, value))), d, y + i);
  });
}

// d/dx = s + x s (1 - s) * 2u'.
void gelu_backward(std::int64_t count, const float* x, const float* dy, float* dx) {
  for_vectors(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto one = hn::Set(d, 1.0F);
    const auto value = hn::LoadU(d, x + i);
    const auto square = hn::Mul(value, value);
    const auto s = gelu_gate(d, value, square);
    const auto inner =
        hn::Mul(hn::MulAdd(square, hn::Set(d, 3 * kCubic), one), hn::Set(d, kTwiceRootTwoOverPi));
    const auto slope = hn::MulAdd(hn::Mul(hn::Mul(value, s), hn::Sub(one, s)), inner, s);
    hn::StoreU(hn::Mul(slope, hn::LoadU(d, dy + i)), d, dx + i);
  });
}

void swiglu_forward(std::int64_t rows, std::int64_t hidden, const float* x, std::int64_t x_stride,
                    float* y, std::int64_t y_stride) {
  for (std::int64_t r = 0; r < rows; ++r, x += x_stride, y += y_stride) {
    for_vectors(hidden, [&](auto d, std::int64_t i) HWY_ATTR {
      const auto gate = hn::LoadU(d, x + i);
      const auto silu = hn::Mul(gate, sigmoid(d, gate));
      hn::StoreU(hn::Mul(silu, hn::LoadU(d, x + hidden + i)), d, y + i);
    });
  }
}

// silu' = s + gate s (1 - s).
void swiglu_backward(std::int64_t rows, std::int64_t hidden, const float* x, std::int64_t x_stride,
                     const float* dy, std::int64_t y_stride, float* dx) {
  for (std::int64_t r = 0; r < rows; ++r, x += x_stride, dx += x_stride, dy += y_stride) {
    for_vectors(hidden, [&](auto d, std::int64_t i) HWY_ATTR {
      const auto gate = hn::LoadU(d, x + i);
      const auto gradient = hn::LoadU(d, dy + i);
      const auto s = sigmoid(d, gate);
      const auto silu = hn::Mul(gate, s);
      const auto slope = hn::MulAdd(silu, hn::Sub(hn::Set(d, 1.0F), s), s);
      const auto up = hn::LoadU(d, x + hidden + i);
      hn::StoreU(hn::Mul(hn::Mul(gradient, up), slope), d, dx + i);
      hn::StoreU(hn::Mul(gradient, silu), d, dx + hidden + i);
    });
  }
}

// The nearest value with 16 zero low bits. A NaN stays one: rounding could carry it into infinity
// or zero.
template <class D, class V>
HWY_INLINE auto rounded_bits(D /*d*/, V value) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  const auto kept = hn::Or(bits, hn::Set(du, 0x00400000));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
  return hn::And(hn::IfThenElse(is_nan, kept, rounded), hn::Set(du, 0xFFFF0000));
}

void round_to_bf16(std::int64_t count, const float* values, float* out) {
  for_vectors(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::BitCast(d, rounded_bits(d, hn::LoadU(d, values + i))), d, out + i);
  });
}

void convert_to_bf16(std::int64_t count, const float* values, std::uint16_t* out) {
  for_vectors(count, [&](auto d, std::int64_t i) HWY_ATTR {
    using D = decltype(d);
    const hn::Rebind<std::uint16_t, D> d16;
    const auto high = hn::ShiftRight<16>(rounded_bits(d, hn::LoadU(d, values + i)));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<D>(), high)), d16, out + i);
  });
}

}  // namespace causeway::intra::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::intra {

HWY_EXPORT(add);
HWY_EXPORT(add_columns);
HWY_EXPORT(gelu_forward);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(swiglu_forward);
HWY_EXPORT(swiglu_backward);
HWY_EXPORT(round_to_bf16);
HWY_EXPORT(convert_to_bf16);

void add(std::int64_t count, const float* a, const float* b, float* out) {
  HWY_DYNAMIC_DISPATCH(add)(count, a, b, out);
}
void add_columns(std::int64_t rows, std::int64_t columns, std::int64_t stride, const float* values,
                 float* sums) {
  HWY_DYNAMIC_DISPATCH(add_columns)(rows, columns, stride, values, sums);
}
void gelu_forward(std::int64_t count, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(gelu_forward)(count, x, y);
}
void gelu_backward(std::int64_t count, const float* x, const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(gelu_backward)(count, x, dy, dx);
}
void swiglu_forward(std::int64_t rows, std::int64_t hidden, const float* x, std::int64_t x_stride,
                    float* y, std::int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(swiglu_forward)(rows, hidden, x, x_stride, y, y_stride);
}
void swiglu_backward(std::int64_t rows, std::int64_t hidden, const float* x, std::int64_t x_stride,
                     const float* dy, std::int64_t y_stride, float* dx) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward)(rows, hidden, x, x_stride, dy, y_stride, dx);
}
void round_to_bf16(std::int64_t count, const float* values, float* out) {
  HWY_DYNAMIC_DISPATCH(round_to_bf16)(count, values, out);
}
void convert_to_bf16(std::int64_t count, const float* values, std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(convert_to_bf16)(count, values, out);
}

}  // namespace causeway::intra
#endif  // HWY_ONCE
