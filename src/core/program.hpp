// A method's step as a list of instructions on registers, and what a combination of registers is.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "vec.hpp"

namespace dapd {

struct Term {
  int reg;
  double factor;        // in step k this is
  double changing = 0;  // factor + changing/(k + ahead)
};

struct Instruction {
  enum Kind { COMBINE, GRADIENT, DUAL_STEP, PRIMAL_STEP } kind;
  int out;                  // DUAL_STEP: y
  int second = -1;          // DUAL_STEP: Mᵀy
  std::vector<Term> terms;  // COMBINE: out = Σ factor·reg; GRADIENT: x; DUAL_STEP: v and base; PRIMAL_STEP: v
  double step = 0;          // DUAL_STEP and PRIMAL_STEP

  bool changes() const {
    return std::any_of(terms.begin(), terms.end(), [](const Term& term) { return term.changing != 0; });
  }
};

struct Program {
  std::vector<bool> dual;                 // of each register: as long as y, not as x
  std::vector<Instruction> instructions;
  std::vector<int> next;                  // after a step, register k is what register next[k] was
  double ahead = 1;                       // what is added to the number of a step before factors are divided by it
};

inline constexpr int MOST_TERMS = 6;  // of a combination; the tracer splits longer ones

// Throws unless each instruction reads and writes registers of the lengths that it needs, and nothing that it reads is
// what it writes, unless it goes entry by entry.
inline void check(const Program& program) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("the program ") + what);
  };
  const int count = static_cast<int>(program.dual.size());
  const auto is = [&](int reg, bool dual) { return 0 <= reg && reg < count && program.dual[reg] == dual; };
  for (const Instruction& step : program.instructions) {
    const auto& terms = step.terms;
    switch (step.kind) {
      case Instruction::COMBINE:
        require(0 <= step.out && step.out < count && terms.size() <= MOST_TERMS, "has a wrong combination");
        for (const Term& term : terms) require(is(term.reg, program.dual[step.out]), "combines wrong registers");
        break;
      case Instruction::GRADIENT:
        require(terms.size() == 1 && is(terms[0].reg, false) && is(step.out, false) && terms[0].reg != step.out,
                "has a gradient with wrong registers");
        break;
      case Instruction::PRIMAL_STEP:
        require(terms.size() == 1 && is(terms[0].reg, false) && is(step.out, false), "has a primal step with wrong registers");
        break;
      case Instruction::DUAL_STEP:
        require(terms.size() == 2 && is(terms[0].reg, false) && is(terms[1].reg, true) && is(step.out, true) &&
                    is(step.second, false) && terms[0].reg != step.second && terms[1].reg != step.out,
                "has a dual step with wrong registers");
        break;
    }
  }
  require(program.ahead > 0, "divides by the number of a step that may be zero");
  std::vector<bool> taken(program.dual.size(), false);
  require(program.next.size() == program.dual.size(), "has another number of registers after a step");
  for (int reg = 0; reg < count; ++reg) {
    const int from = program.next[reg];
    require(is(from, program.dual[reg]) && !taken[from], "gives registers wrong places after a step");
    taken[from] = true;
  }
}

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
  }
}

}  // namespace dapd
