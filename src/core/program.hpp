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
  struct Action {
    const Instruction* instruction;
    const T* factors;
    int phase;
    bool meet;   // all threads, before this
    int joined;  // how many combinations from here on are computed together, piece by piece
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
    const int threads = shared_by_;
    actions_.clear();
    const T* factors = factors_.data();
    for (const Instruction& step : program_.instructions) {
      const int phases = step.kind == Instruction::COMBINE ? 1
                         : step.kind == Instruction::GRADIENT ? f_->phases()
                                                              : map_->phases();
      for (int phase = 0; phase < phases; ++phase) {
        actions_.push_back({&step, factors, phase, threads > 1 && phase > 0, 1});
      }
      factors += step.terms.size();
    }
    if (threads > 1) place_meetings();
    for (std::size_t k = actions_.size(); k-- > 1;) {
      const Action &now = actions_[k], &before = actions_[k - 1];
      const bool both = now.instruction->kind == Instruction::COMBINE && before.instruction->kind == Instruction::COMBINE;
      if (both && !now.meet && program_.dual[now.instruction->out] == program_.dual[before.instruction->out]) {
        actions_[k - 1].joined = now.joined + 1;
      }
    }
    work_per_look_ = work_per_look();
  }

  // Whether the caller's thread looks at the watch before action k.
  bool looks(std::size_t k) const {
    if (shared_by_ > 1) return actions_[k].meet;
    return k == 0 || actions_[k].instruction->kind != Instruction::COMBINE;
  }

  // Multiplications from one look to the next, on average.
  double work_per_look() const {
    double work = 0, count = 0;
    for (std::size_t k = 0; k < actions_.size(); ++k) {
      const Instruction& step = *actions_[k].instruction;
      count += looks(k);
      if (step.kind == Instruction::COMBINE) work += static_cast<double>(size(step.out) * step.terms.size());
      if (step.kind == Instruction::GRADIENT) work += f_->work() / f_->phases();
      if (step.kind == Instruction::DUAL_STEP) work += map_->work() / map_->phases();
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
    const Instruction& step = *action.instruction;
    const int scratch_of_M = static_cast<int>(program_.dual.size()), scratch_of_f = scratch_of_M + 1;
    const bool first = action.phase == 0;  // it writes a thread's own scratch, and the later phases read everyone's
    if (step.kind == Instruction::COMBINE) {
      for (const Term& term : step.terms) call(term.reg, false, false);
      call(step.out, true, false);
      return;
    }
    const bool gradient = step.kind == Instruction::GRADIENT;
    if (gradient ? f_->exchanges_scratch() : map_->exchanges_scratch()) {
      call(gradient ? scratch_of_f : scratch_of_M, first, !first);
    }
    if (gradient) {
      call(step.terms[0].reg, false, f_->reads_all_x());
      call(step.out, true, first && f_->writes_anywhere());
    } else if (action.phase == 0) {
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
      for (std::size_t k = 0; k < actions_.size(); k += actions_[k].joined) {
        const Action& action = actions_[k];
        const bool oracle = action.instruction->kind != Instruction::COMBINE;
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
        if (oracle) {
          const bool dual = action.instruction->kind == Instruction::DUAL_STEP;
          act(action, rank, reg, turns[dual]);
          turns[dual] += action.phase + 1 == (dual ? map_->phases() : f_->phases());
        } else {
          combinations(&action, reg, program_.dual[action.instruction->out] ? own_rows : own_columns);
        }
      }
      if (!complete) break;
      for (std::size_t r = 0; r < reg.size(); ++r) after[r] = reg[program_.next[r]];
      reg.swap(after);
    }
    return {done, std::move(reg)};
  }

  void act(const Action& action, int rank, std::vector<T*>& reg, unsigned turn) {
    const Instruction& step = *action.instruction;
    if (step.kind == Instruction::GRADIENT) {
      f_->run(action.phase, rank, reg[step.terms[0].reg], reg[step.out], turn);
    } else {
      map_->run(action.phase, rank,
                {reg[step.terms[0].reg], reg[step.terms[1].reg], static_cast<T>(step.step), reg[step.out],
                 reg[step.second], turn});
    }
  }

  void combinations(const Action* first, const std::vector<T*>& reg, const std::vector<Range>& parts) const {
    constexpr Index PIECE = 2048;  // entries of each vector that stay in the nearest cache
    for (const Range& part : parts) {
      for (Index start = part.start; start < part.stop; start += PIECE) {
        const Index stop = std::min(start + PIECE, part.stop);
        for (const Action* action = first; action < first + first->joined; ++action) {
          const Instruction& step = *action->instruction;
          const int count = static_cast<int>(step.terms.size());
          const T* in[MOST];
          for (int k = 0; k < count; ++k) in[k] = reg[step.terms[k].reg];
          combine(reg[step.out], in, action->factors, count, start, stop);
        }
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
