// A method's program, run by threads that share the vectors.
//
// Registers that hold the state are not written while a step can still be given up: its results stand in other registers,
// and the two sets trade places at its end. So a step that is given up halfway leaves the state as it was. What is done
// ahead for the next step is written to registers that are not the state then.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <optional>

#include "epoch.hpp"
#include "plan.hpp"
#include "primal_step.hpp"
#include "team.hpp"

namespace dapd {

// What the calling thread looks at while a long step runs.
struct Watch {
  std::chrono::steady_clock::time_point deadline;
  std::function<bool()> interrupted;  // asked every 50 ms
};

template <class T>
class Runner {
 public:
  Runner(Program program, std::unique_ptr<DualStep<T>> map, std::unique_ptr<Gradient<T>> f, PrimalProx<T> prox)
      : map_(std::move(map)), f_(std::move(f)), prox_(prox) {
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
    if (shared_by_ > 0) plan(shared_by_);
  }

  T* data(int reg) { return registers_[reg]; }
  int registers() const { return static_cast<int>(program_.dual.size()); }
  bool is_dual(int reg) const { return program_.dual[reg]; }
  Index size(int reg) const { return is_dual(reg) ? map_->rows : map_->columns; }
  double work() const { return map_->work() + f_->work(); }
  std::exception_ptr thrown;
  Index number = 0;  // of the next step, by which factors may be divided

  // Let registers have the entries of others, one after the other.
  void copy(const std::vector<std::pair<int, int>>& from_and_to) {
    for (const auto& [from, to] : from_and_to) std::copy(data(from), data(from) + size(from), data(to));
  }

  // Registers of z, T(z) and the anchor, for x, Mᵀy and y.
  using Places = std::array<std::array<int, 3>, 3>;

  // The same until an epoch is over: `made` goes on with what was measured before.
  Index run_epoch(Index steps, int threads, const Watch& watch, const EpochRule& rule, const Places& at,
                  EpochProgress& made) {
    const auto anchored = [&](int k) -> Anchored<T> { return {data(at[k][0]), data(at[k][1]), data(at[k][2])}; };
    Index taken = 0;
    for (made.end = 0; taken < steps && made.end == 0;) {
      if (made.next <= number) made.next = number + rule.until_measured(number);
      const Index some = std::min(steps - taken, made.next - number), done = run(some, threads, watch);
      taken += done;
      if (done < some) break;
      if (number < made.next) continue;
      const Moves moves = measure(anchored(0), anchored(1), map_->columns, anchored(2), map_->rows, number, rule.rho);
      judge(made, rule, moves, static_cast<double>(number) >= rule.longest);
      made.next = number + rule.until_measured(number);
    }
    return taken;
  }

  // Take steps on so many threads; return how many were completed before the watch said stop, or before a call of Python
  // threw: then `thrown` is what.
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
  // Operations of an action, and those for the next step if there is one, a piece of the vectors at a time.
  class Piecewise final : public Entrywise {
   public:
    Piecewise(const Runner& runner, const Operations<T>& now, const Operations<T>* ahead, const std::vector<T*>& reg,
              Index step)
        : runner_(runner), now_(now), ahead_(ahead), reg_(reg), step_(step) {}
    void operator()(Range entries) const override {
      constexpr Index PIECE = 4096;  // entries of each vector that stay in the nearest cache
      for (Index start = entries.start; start < entries.stop; start += PIECE) {
        const Range piece{start, std::min(start + PIECE, entries.stop)};
        runner_.operate(now_, reg_, piece, step_);
        if (ahead_) runner_.operate(*ahead_, reg_, piece, step_ + 1);
      }
    }

   private:
    const Runner& runner_;
    const Operations<T>& now_;
    const Operations<T>* ahead_;
    const std::vector<T*>& reg_;
    const Index step_;  // its number
  };

  struct Progress {
    Index done = 0;
    std::vector<T*> registers;  // after the last complete step
  };

  // Only when no thread is at work: one that comes late reads the registers when the first has already given up.
  Index finish(const Progress& made) {
    registers_ = made.registers;
    number += made.done;
    return made.done;
  }

  void share(int threads) {
    shared_by_ = 0;  // nobody, if one of these throws
    map_->share(threads, nullptr);
    f_->share(threads, map_->column_ends);
    plan(threads);
    shared_by_ = threads;
  }

  void plan(int threads) {
    plan_.emplace(program_, *map_, *f_, threads);
    work_per_check_ = plan_->work_per_check();
  }

  // Where a step is in a run.
  struct Moment {
    bool first, last;
    unsigned turns[2];  // gradients and dual steps so far
    Index number;       // of the step
  };

  Progress loop(Index steps, int rank, Team* team, const Watch& watch) {
    std::vector<T*> reg = registers_, after(reg.size());
    const std::vector<Range> own_columns{{map_->column_ends[rank], map_->column_ends[rank + 1]}};
    const std::vector<Range>& own_rows = map_->row_ranges[rank];
    Clock clock{watch, work_per_check_};
    Moment moment{true, false, {0, 0}, number};
    Index done = 0;
    if (steps > 0) Piecewise(*this, plan_->start_up, nullptr, reg, number)(own_columns[0]);
    for (; done < steps; ++done, ++moment.number, moment.first = false) {
      moment.last = done + 1 == steps;
      bool complete = true;
      for (std::size_t k = 0; k < plan_->actions.size(); ++k) {
        const Action<T>& action = plan_->actions[k];
        // The caller's thread decides for all, and only where the others must wait for it: then none of them has
        // gone on to the next step, and each gives up this one.
        if (rank == 0 && plan_->checks_watch(k) && clock.up()) {
          if (team) team->halt();
          complete = false;
          break;
        }
        if (action.meet && !team->meet(rank)) {
          complete = false;
          break;
        }
        if (action.oracle) {
          complete = act(action, rank, reg, moment);
          if (!complete && team) team->halt();  // the others wait for the next phase
          if (!complete) break;
        } else {
          for (const Range& part : plan_->is_dual(action) ? own_rows : own_columns) {
            piecewise(action, reg, moment)(part);
          }
        }
      }
      if (!complete) break;
      for (std::size_t r = 0; r < reg.size(); ++r) after[r] = reg[program_.next[r]];
      reg.swap(after);
    }
    return {done, std::move(reg)};
  }

  Piecewise piecewise(const Action<T>& action, const std::vector<T*>& reg, const Moment& moment) const {
    return {*this, action.after, moment.last ? nullptr : &action.ahead, reg, moment.number};
  }

  // False if a call of Python throws.
  bool act(const Action<T>& action, int rank, std::vector<T*>& reg, Moment& moment) try {
    const Instruction& step = *action.oracle;
    const bool dual = step.kind == Instruction::DUAL_STEP;
    unsigned& turn = moment.turns[dual];
    const bool ends = action.phase + 1 == (dual ? map_->phases() : f_->phases());
    if (dual) {
      const Piecewise before(*this, action.before, nullptr, reg, moment.number), after = piecewise(action, reg, moment);
      Vectors<T> vectors{reg[step.terms[0].reg], reg[step.terms[1].reg], static_cast<T>(step.step), reg[step.out],
                         reg[step.second], turn};
      if (!action.before.empty()) vectors.before_rows = &before;
      if (!action.after.empty() || !action.ahead.empty()) {
        (action.phase == 0 ? vectors.after_rows : vectors.after_columns) = &after;
      }
      if (plan_->next_v >= 0) {
        vectors.has_product = plan_->begins_first_dual_step(action) && !moment.first;
        if (plan_->ends_last_dual_step(action) && !moment.last) vectors.next_v = reg[plan_->next_v];
      }
      map_->run(action.phase, rank, vectors);
    } else {
      f_->run(action.phase, rank, reg[step.terms[0].reg], reg[step.out], turn);
    }
    turn += ends;
    return true;
  } catch (...) {
    thrown = std::current_exception();
    return false;
  }

  void operate(const Operations<T>& operations, const std::vector<T*>& reg, Range piece, Index number) const {
    for (const Operation<T>& operation : operations) {
      const Instruction& step = *operation.instruction;
      if (step.kind == Instruction::PRIMAL_STEP) {
        prox_(reg[step.terms[0].reg], static_cast<T>(step.step), reg[step.out], piece);
        continue;
      }
      if (step.kind == Instruction::GRADIENT) {
        f_->entries(reg[step.terms[0].reg], reg[step.out], piece);
        continue;
      }
      const int count = static_cast<int>(step.terms.size());
      const T* in[MOST_TERMS];
      for (int k = 0; k < count; ++k) in[k] = reg[step.terms[k].reg];
      const T* factors = operation.factors;
      T now[MOST_TERMS];
      if (operation.changing) {
        const T part = static_cast<T>(1 / (static_cast<double>(number) + program_.ahead));
        for (int k = 0; k < count; ++k) now[k] = factors[k] + operation.changing[k] * part;
        factors = now;
      }
      combine(reg[step.out], in, factors, count, piece.start, piece.stop);
    }
  }

  // Looks at the watch, but not so often that it costs time.
  struct Clock {
    const Watch& watch;
    double work_per_check;
    double since = 0;
    std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::now();

    bool up() {
      constexpr double ENOUGH = 2e6;  // multiplications, about a millisecond
      if ((since += work_per_check) < ENOUGH) return false;
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
  PrimalProx<T> prox_;
  std::vector<Buffer<T>> buffers_;
  std::vector<T*> registers_;
  std::optional<Plan<T>> plan_;
  int shared_by_ = 0;
  double work_per_check_ = 0;
};

}  // namespace dapd
