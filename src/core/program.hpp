// A method's step as a list of instructions on registers, run by threads that share the vectors.
//
// Registers that hold the state are not written before a step is complete: its results stand in other registers, and
// the two sets trade places at its end. So a step that is given up halfway leaves the state as it was.
#pragma once

#include <chrono>
#include <functional>

#include "gradient.hpp"
#include "team.hpp"

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

// What the calling thread looks at while a long step runs.
struct Watch {
  std::chrono::steady_clock::time_point deadline;
  std::function<bool()> interrupted;  // asked every 50 ms
};

template <class T>
class Runner {
 public:
  Runner(Program program, std::unique_ptr<DualStep<T>> map, std::unique_ptr<Gradient<T>> f)
      : map_(std::move(map)), f_(std::move(f)) {
    use(std::move(program));
  }

  // Run this program from now on, with the same M, φ and f; what the registers hold has no meaning until they are set.
  void use(Program program) {
    if (program.dual != program_.dual) {
      buffers_.clear();
      registers_.clear();
      for (const bool dual : program.dual) {
        buffers_.emplace_back(dual ? map_->rows : map_->columns);
        registers_.push_back(buffers_.back().data());
      }
    }
    program_ = std::move(program);
    factors_.clear();
    for (const Instruction& step : program_.instructions) {
      for (const Term& term : step.terms) factors_.push_back(static_cast<T>(term.factor));
    }
    if (shared_by_ > 0) plan();
  }

  T* data(int reg) { return registers_[reg]; }
  Index size(int reg) const { return program_.dual[reg] ? map_->rows : map_->columns; }
  double work() const { return map_->work() + f_->work(); }

  // Take steps on so many threads; return how many were completed before the watch said stop.
  Index run(Index steps, int threads, const Watch& watch) {
    if (threads != shared_by_) share(threads);
    if (threads > 1) {
      Team team(threads);
      Progress made;
      const bool ran = Pool::instance().run(threads, [&](int rank) {
        Progress own = loop(steps, rank, &team, watch);
        if (rank == 0) made = std::move(own);
      });
      if (ran) return finish(made);
      share(1);  // the threads are taken: do without
    }
    return finish(loop(steps, 0, nullptr, watch));
  }

 private:
  // An instruction that takes each entry by itself: a combination, or the gradient of some f.
  struct Operation {
    const Instruction* instruction;
    const T* factors;
  };
  using Operations = std::vector<Operation>;

  struct Action {
    const Instruction* oracle;  // null if there are only operations
    int phase;
    bool meet;          // all threads, before this
    Operations before;  // in the first phase of a dual step, with each panel of rows before it is used
    Operations after;   // and then; in the last phase with each panel of columns; piece by piece if there is no oracle
  };

  // What a dual step brings along.
  class Carried final : public Entrywise {
   public:
    Carried(const Runner& runner, const Operations& operations, const std::vector<T*>& reg)
        : runner_(runner), operations_(operations), reg_(reg) {}
    void operator()(Range entries) const override { runner_.operate(operations_, reg_, entries); }

   private:
    const Runner& runner_;
    const Operations& operations_;
    const std::vector<T*>& reg_;
  };

  struct Progress {
    Index done = 0;
    std::vector<T*> registers;  // after the last complete step
  };

  // Only when no thread is at work: one that comes late reads the registers when the first has already given up.
  Index finish(const Progress& made) {
    registers_ = made.registers;
    return made.done;
  }

  void share(int threads) {
    map_->share(threads, nullptr);
    f_->share(threads, map_->column_ends);
    shared_by_ = threads;
    plan();
  }

  // The program as actions for the threads that share the vectors.
  void plan() {
    arrange();
    if (shared_by_ > 1) place_meetings();
    for (std::size_t k = actions_.size(); k-- > 1;) {
      Action &now = actions_[k], &before = actions_[k - 1];
      if (now.oracle || before.oracle || now.meet || is_dual(now.after[0]) != is_dual(before.after[0])) continue;
      before.after.insert(before.after.end(), now.after.begin(), now.after.end());
      actions_.erase(actions_.begin() + static_cast<std::ptrdiff_t>(k));
    }
    work_per_look_ = work_per_look();
  }

  // Actions in the program's order, but a dual step that goes by panels takes operations along: those with vectors as
  // long as y that come before it, and all that come after it. Vectors as long as x and as long as y never mix in them.
  void arrange() {
    actions_.clear();
    Operations early;                  // for the first dual step
    bool was_dual_step = false;        // and it takes operations along
    bool takes_dual = false;           // still: not if one writes y, which the last phase reads
    std::size_t first = 0, last = 0;   // its phases
    const T* factors = factors_.data();
    for (const Instruction& step : program_.instructions) {
      const Operation operation{&step, factors};
      factors += step.terms.size();
      if (is_entrywise(step)) {
        const bool dual = is_dual(operation);
        takes_dual = takes_dual && !(dual && step.out == actions_[first].oracle->out);
        if (was_dual_step && (takes_dual || !dual)) {
          actions_[dual ? first : last].after.push_back(operation);
        } else if (!was_dual_step && dual && map_->goes_by_panels()) {
          early.push_back(operation);
        } else {
          actions_.push_back({nullptr, 0, false, {}, {operation}});
        }
        continue;
      }
      const bool dual_step = step.kind == Instruction::DUAL_STEP;
      const int phases = dual_step ? map_->phases() : f_->phases();
      first = actions_.size(), last = first + static_cast<std::size_t>(phases) - 1;
      for (int phase = 0; phase < phases; ++phase) {
        actions_.push_back({&step, phase, shared_by_ > 1 && phase > 0, {}, {}});
      }
      was_dual_step = takes_dual = dual_step && map_->goes_by_panels();
      if (dual_step) actions_[first].before.swap(early);
    }
    for (const Operation& operation : early) actions_.push_back({nullptr, 0, false, {}, {operation}});
  }

  bool is_entrywise(const Instruction& step) const {
    return step.kind == Instruction::COMBINE || (step.kind == Instruction::GRADIENT && f_->is_entrywise());
  }
  bool is_dual(const Operation& operation) const { return program_.dual[operation.instruction->out]; }

  // Whether the caller's thread looks at the watch before action k.
  bool looks(std::size_t k) const {
    if (shared_by_ > 1) return actions_[k].meet;
    return k == 0 || actions_[k].oracle;
  }

  // Multiplications from one look to the next, on average.
  double work_per_look() const {
    double work = 0, count = 0;
    for (std::size_t k = 0; k < actions_.size(); ++k) count += looks(k);
    for (const Instruction& step : program_.instructions) {
      if (step.kind == Instruction::COMBINE) work += static_cast<double>(size(step.out) * step.terms.size());
      if (step.kind == Instruction::GRADIENT) work += f_->work();
      if (step.kind == Instruction::DUAL_STEP) work += map_->work();
    }
    return work / std::max(1.0, count);
  }

  // What threads have done to a register since they last met.
  struct Use {
    bool read_own = false, read_all = false, wrote_own = false, wrote_all = false;
  };

  // Threads must meet between a write and a use of the same register if either goes beyond a thread's own part. The
  // scratch memory of M and of f counts as two more registers, which never trade places.
  void place_meetings() {
    std::vector<Use> uses(program_.dual.size() + 2);
    const std::size_t enough = 2 * program_.dual.size() + 2;  // steps after which registers have traded all places
    for (std::size_t turn = 0; turn < enough; ++turn) {
      for (Action& action : actions_) {
        if (action.meet || conflicts(action, uses)) {
          action.meet = true;
          uses.assign(uses.size(), {});
        }
        visit(action, [&](int reg, bool write, bool all) {
          Use& use = uses[reg];
          (write ? all ? use.wrote_all : use.wrote_own : all ? use.read_all : use.read_own) = true;
        });
      }
      std::vector<Use> after = uses;
      for (std::size_t k = 0; k < program_.next.size(); ++k) after[k] = uses[program_.next[k]];
      uses = after;
    }
    // at least once per step, so no thread is a whole step ahead when the team halts
    if (!actions_.empty() &&
        std::none_of(actions_.begin(), actions_.end(), [](const Action& a) { return a.meet; })) {
      actions_[0].meet = true;
    }
  }

  bool conflicts(const Action& action, const std::vector<Use>& uses) const {
    bool found = false;
    visit(action, [&](int reg, bool write, bool all) {
      const Use& use = uses[reg];
      found |= use.wrote_all || (all && use.wrote_own) || (write && (use.read_all || (all && use.read_own)));
    });
    return found;
  }

  template <class Call>
  void visit(const Action& action, Call call) const {
    for (const Operation& operation : action.before) visit_entries(*operation.instruction, call);
    if (action.oracle) visit_oracle(*action.oracle, action.phase == 0, call);
    for (const Operation& operation : action.after) visit_entries(*operation.instruction, call);
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
    if (gradient ? f_->exchanges_scratch() : map_->exchanges_scratch()) {
      call(gradient ? scratch_of_f : scratch_of_M, first, !first);
    }
    if (gradient) {
      call(step.terms[0].reg, false, f_->reads_all_x());
      call(step.out, true, first && f_->writes_anywhere());
    } else if (first) {
      call(step.terms[0].reg, false, map_->reads_all_v());
      call(step.terms[1].reg, false, false);
      call(step.out, true, false);
      call(step.second, true, map_->writes_all_out());
    } else {
      call(step.out, false, map_->reads_all_y());
      call(step.out, true, false);
      call(step.second, true, false);
    }
  }

  Progress loop(Index steps, int rank, Team* team, const Watch& watch) {
    std::vector<T*> reg = registers_, after(reg.size());
    const std::vector<Range> own_columns{{map_->column_ends[rank], map_->column_ends[rank + 1]}};
    const std::vector<Range>& own_rows = map_->row_ranges[rank];
    Clock clock{watch, work_per_look_};
    unsigned turns[2] = {0, 0};  // gradients and dual steps so far
    Index done = 0;
    for (; done < steps; ++done) {
      bool complete = true;
      for (std::size_t k = 0; k < actions_.size(); ++k) {
        const Action& action = actions_[k];
        // The caller's thread decides for all, and only where the others must wait for it: then none of them has
        // gone on to the next step, and each gives up this one.
        if (rank == 0 && looks(k) && clock.up()) {
          if (team) team->halt();
          complete = false;
          break;
        }
        if (action.meet && !team->meet(rank)) {
          complete = false;
          break;
        }
        if (action.oracle) {
          const bool dual = action.oracle->kind == Instruction::DUAL_STEP;
          act(action, rank, reg, turns[dual]);
          turns[dual] += action.phase + 1 == (dual ? map_->phases() : f_->phases());
        } else {
          for (const Range& part : is_dual(action.after[0]) ? own_rows : own_columns) operate(action.after, reg, part);
        }
      }
      if (!complete) break;
      for (std::size_t r = 0; r < reg.size(); ++r) after[r] = reg[program_.next[r]];
      reg.swap(after);
    }
    return {done, std::move(reg)};
  }

  void act(const Action& action, int rank, std::vector<T*>& reg, unsigned turn) {
    const Instruction& step = *action.oracle;
    if (step.kind == Instruction::GRADIENT) {
      f_->run(action.phase, rank, reg[step.terms[0].reg], reg[step.out], turn);
      return;
    }
    const Carried before(*this, action.before, reg), after(*this, action.after, reg);
    Vectors<T> vectors{reg[step.terms[0].reg], reg[step.terms[1].reg], static_cast<T>(step.step), reg[step.out],
                       reg[step.second], turn};
    if (!action.before.empty()) vectors.before_rows = &before;
    if (!action.after.empty()) (action.phase == 0 ? vectors.after_rows : vectors.after_columns) = &after;
    map_->run(action.phase, rank, vectors);
  }

  void operate(const Operations& operations, const std::vector<T*>& reg, Range entries) const {
    constexpr Index PIECE = 4096;  // entries of each vector that stay in the nearest cache
    for (Index start = entries.start; start < entries.stop; start += PIECE) {
      const Index stop = std::min(start + PIECE, entries.stop);
      for (const Operation& operation : operations) {
        const Instruction& step = *operation.instruction;
        if (step.kind == Instruction::GRADIENT) {
          f_->entries(reg[step.terms[0].reg], reg[step.out], {start, stop});
          continue;
        }
        const int count = static_cast<int>(step.terms.size());
        const T* in[MOST];
        for (int k = 0; k < count; ++k) in[k] = reg[step.terms[k].reg];
        combine(reg[step.out], in, operation.factors, count, start, stop);
      }
    }
  }

 public:
  static constexpr int MOST = 64;  // terms of a combination; the tracer splits longer ones

 private:
  // Looks at the watch, but not so often that it costs time.
  struct Clock {
    const Watch& watch;
    double work_per_look;
    double since = 0;
    std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::now();

    bool up() {
      constexpr double ENOUGH = 2e6;  // multiplications, about a millisecond
      if ((since += work_per_look) < ENOUGH) return false;
      since = 0;
      const auto now = std::chrono::steady_clock::now();
      if (now >= watch.deadline) return true;
      if (now - asked < std::chrono::milliseconds(50)) return false;
      asked = now;
      return watch.interrupted();
    }
  };

  Program program_;
  std::unique_ptr<DualStep<T>> map_;
  std::unique_ptr<Gradient<T>> f_;
  std::vector<Buffer<T>> buffers_;
  std::vector<T*> registers_;
  std::vector<T> factors_;
  std::vector<Action> actions_;
  int shared_by_ = 0;
  double work_per_look_ = 0;
};

}  // namespace dapd
