// A program as actions for threads that share the vectors: which operations go along with a dual step, which of the
// next step are done at the end of this one, and where threads have to meet.
#pragma once

#include <limits>

#include "gradient.hpp"
#include "program.hpp"

namespace dapd {

// An instruction that takes each entry by itself: a combination, a primal step, or the gradient of some f.
template <class T>
struct Operation {
  const Instruction* instruction;
  const T* factors;
  const T* changing = nullptr;  // what is added to the factors, divided by the number of the step; null if nothing is
};

template <class T>
using Operations = std::vector<Operation<T>>;

template <class T>
struct Action {
  const Instruction* oracle;  // null if there are only operations
  int phase;
  bool meet;             // all threads, before this
  Operations<T> before;  // in the first phase of a dual step, with each panel of rows before it is used
  Operations<T> after;   // with each panel of rows or columns that a phase has computed; all there is without an oracle
  Operations<T> ahead;   // the first operations of the next step, if there is one; they come last
};

template <class T>
class Plan {
 public:
  Plan(const Program& program, const DualStep<T>& map, const Gradient<T>& f, int threads)
      : program_(program), map_(map), f_(f), threads_(threads) {
    for (const Instruction& step : program_.instructions) {
      for (const Term& term : step.terms) {
        factors_.push_back(static_cast<T>(term.factor));
        changing_.push_back(static_cast<T>(term.changing));
      }
    }
    arrange();
    look_ahead();
    if (threads_ > 1) {
      place_meetings();
      keep_state_until_the_end();
    }
    for (std::size_t k = actions.size(); k-- > 1;) {
      Action<T>&now = actions[k], &before = actions[k - 1];
      if (now.oracle || before.oracle || now.meet || is_dual(now) != is_dual(before)) continue;
      before.after.insert(before.after.end(), now.after.begin(), now.after.end());
      before.ahead = std::move(now.ahead);
      actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  Plan(const Plan&) = delete;  // actions point into it
  Plan& operator=(const Plan&) = delete;

  // Whether an action begins the first dual step of a step, or ends the last one.
  bool begins_first_dual_step(const Action<T>& action) const { return action.oracle == opening_ && action.phase == 0; }
  bool ends_last_dual_step(const Action<T>& action) const { return action.oracle == closing_ && action.phase + 1 == map_.phases(); }

  bool is_dual(const Action<T>& action) const { return !action.after.empty() && is_dual(action.after[0]); }

  // Whether the caller's thread checks the watch before action k.
  bool checks_watch(std::size_t k) const {
    if (threads_ > 1) return actions[k].meet;
    return k == 0 || actions[k].oracle;
  }

  // Multiplications from one check to the next, on average.
  double work_per_check() const {
    if (map_.calls_python() || f_.calls_python()) return std::numeric_limits<double>::infinity();  // for any length of time
    double work = 0, count = 0;
    for (std::size_t k = 0; k < actions.size(); ++k) count += checks_watch(k);
    for (const Instruction& step : program_.instructions) {
      const Index size = program_.dual[step.out] ? map_.rows : map_.columns;
      if (step.kind == Instruction::COMBINE || step.kind == Instruction::PRIMAL_STEP) work += static_cast<double>(size * step.terms.size());
      if (step.kind == Instruction::GRADIENT) work += f_.work();
      if (step.kind == Instruction::DUAL_STEP) work += map_.work();
    }
    return work / std::max(1.0, count);
  }

  std::vector<Action<T>> actions;
  Operations<T> start_up;  // before the actions of the first step: later ones find them done
  int next_v = -1;         // the register of the next step's v, if a step may go on with the product Mv; else −1

 private:
  // Actions in the program's order, but a dual step may take operations along: those with vectors as long as y that come
  // before it, and all that come after it. Vectors as long as x and as long as y never mix in them.
  void arrange() {
    Operations<T> early;              // for the first dual step
    bool was_dual_step = false;       // whether the last oracle was one
    bool takes_dual = false;          // whether it still takes vectors as long as y: not if one writes y, which it reads
    std::size_t begin = 0, end = 0;   // its first and its last phase
    const T* factors = factors_.data();
    for (const Instruction& step : program_.instructions) {
      const T* changing = step.changes() ? changing_.data() + (factors - factors_.data()) : nullptr;
      const Operation<T> operation{&step, factors, changing};
      factors += step.terms.size();
      if (is_entrywise(step)) {
        const bool dual = is_dual(operation);
        takes_dual = takes_dual && !(dual && step.out == actions[begin].oracle->out);
        if (was_dual_step && (dual ? takes_dual : map_.carries_columns())) {
          actions[dual ? begin : end].after.push_back(operation);
        } else if (!was_dual_step && dual && map_.carries_rows()) {
          early.push_back(operation);
        } else {
          actions.push_back({nullptr, 0, false, {}, {operation}, {}});
        }
        continue;
      }
      const bool dual_step = step.kind == Instruction::DUAL_STEP;
      const int phases = dual_step ? map_.phases() : f_.phases();
      begin = actions.size(), end = begin + static_cast<std::size_t>(phases) - 1;
      for (int phase = 0; phase < phases; ++phase) {
        actions.push_back({&step, phase, threads_ > 1 && phase > 0, {}, {}, {}});
      }
      was_dual_step = dual_step;
      takes_dual = dual_step && map_.carries_rows();
      if (dual_step) actions[begin].before.swap(early);
    }
    for (const Operation<T>& operation : early) actions.push_back({nullptr, 0, false, {}, {operation}, {}});
  }

  // Operations with vectors as long as x that come before the first oracle need nothing of others. So they are done at the
  // end of the step before, when their entries are near: with the panels of columns if a dual step is last.
  void look_ahead() {
    const auto oracle = std::find_if(actions.begin(), actions.end(), [](const Action<T>& a) { return a.oracle; });
    if (oracle == actions.end()) return;
    opening_ = oracle->oracle;
    std::vector<Action<T>> others;
    for (auto at = actions.begin(); at != actions.end(); ++at) {
      if (at < oracle && !is_dual(*at)) {
        start_up.push_back(at->after[0]);
      } else {
        others.push_back(std::move(*at));
      }
    }
    actions = std::move(others);
    Action<T>& end = last_with_columns();
    renamed_.reserve(start_up.size());  // actions point to its entries
    for (const Operation<T>& operation : start_up) {
      renamed_.push_back(renamed(*operation.instruction));
      end.ahead.push_back({&renamed_.back(), operation.factors, operation.changing});
    }
    if (map_.continues() && carries(end) && opening_->kind == Instruction::DUAL_STEP) {
      closing_ = end.oracle;
      next_v = program_.next[opening_->terms[0].reg];
    }
  }

  // A step may be given up where threads meet, and what is done ahead may overwrite the state that it began with. One
  // thread gives up only before oracles, and none of them follows.
  void keep_state_until_the_end() {
    const auto at = std::find_if(actions.begin(), actions.end(), [](const Action<T>& a) { return !a.ahead.empty(); });
    if (at == actions.end() || std::none_of(at + 1, actions.end(), [](const Action<T>& a) { return a.meet; })) return;
    Operations<T> ahead;
    ahead.swap(at->ahead);
    actions.push_back({nullptr, 0, false, {}, {}, std::move(ahead)});
    next_v = -1;
    place_meetings();
  }

  // The action after which nothing is left to be done with vectors as long as x.
  Action<T>& last_with_columns() {
    for (std::size_t k = actions.size(); k-- > 0;) {
      if (carries(actions[k]) || (!actions[k].oracle && !is_dual(actions[k]))) return actions[k];
      if (actions[k].oracle) break;
    }
    actions.push_back({nullptr, 0, false, {}, {}, {}});
    return actions.back();
  }

  // Whether it is the last phase of a dual step that takes operations with panels of columns along.
  bool carries(const Action<T>& action) const {
    return action.oracle && action.oracle->kind == Instruction::DUAL_STEP && map_.carries_columns() &&
           action.phase + 1 == map_.phases();
  }

  // An instruction of the next step, with its registers as they are called before this step ends.
  Instruction renamed(Instruction step) const {
    step.out = program_.next[step.out];
    for (Term& term : step.terms) term.reg = program_.next[term.reg];
    return step;
  }

  bool is_entrywise(const Instruction& step) const {
    return step.kind == Instruction::COMBINE || step.kind == Instruction::PRIMAL_STEP ||
           (step.kind == Instruction::GRADIENT && f_.is_entrywise());
  }
  bool is_dual(const Operation<T>& operation) const { return program_.dual[operation.instruction->out]; }

  // What threads have done to a register since they last met.
  struct Use {
    bool read_own = false, read_all = false, wrote_own = false, wrote_all = false;
  };

  // Threads must meet between a write and a use of the same register if either goes beyond a thread's own part. The
  // scratch memory of M and of f counts as two more registers, which never trade places.
  void place_meetings() {
    std::vector<Use> uses(program_.dual.size() + 2);
    const auto note = [&](int reg, bool write, bool all) {
      Use& use = uses[reg];
      (write ? all ? use.wrote_all : use.wrote_own : all ? use.read_all : use.read_own) = true;
    };
    for (const Operation<T>& operation : start_up) visit_entries(*operation.instruction, note);
    const std::size_t enough = 2 * program_.dual.size() + 2;  // steps after which registers have traded all places
    for (std::size_t turn = 0; turn < enough; ++turn) {
      for (Action<T>& action : actions) {
        if (action.meet || conflicts(action, uses)) {
          action.meet = true;
          uses.assign(uses.size(), {});
        }
        visit(action, note);
      }
      std::vector<Use> after = uses;
      for (std::size_t k = 0; k < program_.next.size(); ++k) after[k] = uses[program_.next[k]];
      uses = after;
    }
    // at least once per step, so no thread is a whole step ahead when the team halts
    if (!actions.empty() &&
        std::none_of(actions.begin(), actions.end(), [](const Action<T>& a) { return a.meet; })) {
      actions[0].meet = true;
    }
  }

  bool conflicts(const Action<T>& action, const std::vector<Use>& uses) const {
    bool found = false;
    visit(action, [&](int reg, bool write, bool all) {
      const Use& use = uses[reg];
      found |= use.wrote_all || (all && use.wrote_own) || (write && (use.read_all || (all && use.read_own)));
    });
    return found;
  }

  template <class Call>
  void visit(const Action<T>& action, Call call) const {
    for (const Operation<T>& operation : action.before) visit_entries(*operation.instruction, call);
    if (action.oracle) visit_oracle(*action.oracle, action.phase == 0, call);
    for (const Operation<T>& operation : action.after) visit_entries(*operation.instruction, call);
    for (const Operation<T>& operation : action.ahead) visit_entries(*operation.instruction, call);
  }

  template <class Call>
  void visit_entries(const Instruction& step, Call call) const {
    for (const Term& term : step.terms) call(term.reg, false, false);
    call(step.out, true, false);
  }

  template <class Call>
  void visit_oracle(const Instruction& step, bool first, Call call) const {
    const int scratch_of_M = static_cast<int>(program_.dual.size()), scratch_of_f = scratch_of_M + 1;
    const bool gradient = step.kind == Instruction::GRADIENT;
    // the first phase writes a thread's own scratch, and the later ones read everyone's
    if (gradient ? f_.exchanges_scratch() : map_.exchanges_scratch()) {
      call(gradient ? scratch_of_f : scratch_of_M, first, !first);
    }
    if (gradient) {
      call(step.terms[0].reg, false, f_.reads_all_x());
      call(step.out, true, first && f_.writes_anywhere());
    } else if (first) {
      call(step.terms[0].reg, false, map_.reads_all_v());
      call(step.terms[1].reg, false, false);
      call(step.out, true, false);
      call(step.second, true, map_.writes_all_out());
    } else {
      call(step.out, false, map_.reads_all_y());
      call(step.out, true, false);
      call(step.second, true, false);
    }
  }

  const Program& program_;
  const DualStep<T>& map_;
  const Gradient<T>& f_;
  const int threads_;
  std::vector<T> factors_, changing_;
  std::vector<Instruction> renamed_;
  const Instruction *opening_ = nullptr, *closing_ = nullptr;
};

}  // namespace dapd
