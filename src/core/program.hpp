// A method's step as a list of instructions on registers, and what a combination of registers is.
#pragma once

#include <algorithm>
#include <vector>

#include "vec.hpp"

namespace dapd {

struct Term {
  int reg;
  double factor;
};

struct Instruction {
  enum Kind { COMBINE, GRADIENT, DUAL_STEP } kind;
  int out;                  // DUAL_STEP: y
  int second = -1;          // DUAL_STEP: Mᵀy
  std::vector<Term> terms;  // COMBINE: out = Σ factor·reg; GRADIENT: x; DUAL_STEP: v and base
  double step = 0;          // DUAL_STEP
};

struct Program {
  std::vector<bool> dual;                 // of each register: as long as y, not as x
  std::vector<Instruction> instructions;
  std::vector<int> next;                  // after a step, register k is what register next[k] was
};

// out = Σ factor·input in the entries start … stop − 1; out may be one of the inputs.
template <class T, int N>
void combine_exactly(T* out, const T* const* in, const T* factor, Index start, Index stop) {
  entry_by_entry(out, start, stop, [&](auto at) {
    auto sum = at(in[0]) * factor[0];
    for (int k = 1; k < N; ++k) sum += at(in[k]) * factor[k];
    return sum;
  });
}

template <class T>
void combine(T* out, const T* const* in, const T* factor, int count, Index start, Index stop) {
  switch (count) {
    case 0: std::fill(out + start, out + stop, T(0)); return;
    case 1: combine_exactly<T, 1>(out, in, factor, start, stop); return;
    case 2: combine_exactly<T, 2>(out, in, factor, start, stop); return;
    case 3: combine_exactly<T, 3>(out, in, factor, start, stop); return;
    case 4: combine_exactly<T, 4>(out, in, factor, start, stop); return;
    case 5: combine_exactly<T, 5>(out, in, factor, start, stop); return;
    case 6: combine_exactly<T, 6>(out, in, factor, start, stop); return;
    default:
      for (Index j = start; j < stop; ++j) {
        T sum = 0;
        for (int k = 0; k < count; ++k) sum += in[k][j] * factor[k];
        out[j] = sum;
      }
  }
}

inline constexpr int MOST_TERMS = 64;  // of a combination; the tracer splits longer ones

}  // namespace dapd
