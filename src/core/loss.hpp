// Losses ℓ(u), row by row: their derivative turns u = Ax into the rows of the gradient of Σ ℓ(aᵢᵀx).
#pragma once

#include <cmath>

#include "vec.hpp"

namespace dapd {

enum class Loss : std::uint8_t {  // the same numbers as in functions/native.py
  NONE,
  SQUARE,        // ½u²
  LOGISTIC,      // log(1 + exp(−label·u))
  PSEUDO_HUBER,  // √(u² + e²)
  CALLED,        // Python computes the derivative
};
inline constexpr std::uint8_t LOSSES = 5;

template <class T>
inline T logistic_slope(T label, T u) {
  return T(-0.5) * label * (T(1) - std::tanh(T(0.5) * label * u));  // −label/(1 + exp(label·u)) without overflow
}

template <class T>
inline T huber_slope(T e, T u) {
  return u / std::sqrt(u * u + e * e);
}

template <class T>
struct Slope {
  Loss loss = Loss::NONE;
  const T* parameter = nullptr;  // the labels of the logistic loss, or e of the pseudo-Huber loss
  bool one_parameter = true;     // one for all rows

  // u becomes ℓ'(u) in the rows start … stop − 1; CALLED leaves it to its caller.
  void operator()(T* __restrict u, Index start, Index stop) const {
    switch (loss) {
      case Loss::NONE:
      case Loss::SQUARE:
      case Loss::CALLED: return;
      case Loss::LOGISTIC: return each([](T label, T v) { return logistic_slope(label, v); }, u, start, stop);
      case Loss::PSEUDO_HUBER: return each([](T e, T v) { return huber_slope(e, v); }, u, start, stop);
    }
  }

 private:
  template <class Derivative>
  void each(Derivative derivative, T* __restrict u, Index start, Index stop) const {
    if (one_parameter) {
      const T one = parameter[0];
      for (Index i = start; i < stop; ++i) u[i] = derivative(one, u[i]);
    } else {
      for (Index i = start; i < stop; ++i) u[i] = derivative(parameter[i], u[i]);
    }
  }
};

}  // namespace dapd
