// The block-coordinate loops as Python classes; the records come from engines/block_tables.py, which checks them.
#include "bind.hpp"

#include <nanobind/stl/string.h>

#include <chrono>
#include <mutex>
#include <string>

#include "../arrays.hpp"
#include "x_sbc.hpp"
#include "x_sbc_nonseparable.hpp"
#include "y_sbc.hpp"

namespace dapd {

inline Loss loss_of(std::uint8_t code) {
  if (code >= LOSSES) throw std::invalid_argument("f has an unknown loss");
  return static_cast<Loss>(code);
}

// (first, rows, stride, at, dense, indptr, indices, values)
template <class T>
BlockMatrix<T> make_matrix(Keeper& keep, nb::tuple record) {
  BlockMatrix<T> B;
  B.blocks = static_cast<Index>(keep.array(record[1]).size());
  B.first = keep.vector<std::int64_t>(record[0]);
  B.rows = keep.vector<std::int64_t>(record[1]);
  B.stride = keep.vector<std::int64_t>(record[2]);
  B.at = keep.vector<std::int64_t>(record[3]);
  B.dense = keep.vector<T>(record[4]);
  B.sparse = {keep.vector<std::uint32_t>(record[5]), keep.vector<std::uint32_t>(record[6]), keep.vector<T>(record[7])};
  return B;
}

// (loss, e, diagonal, linear, A, H, target, at)
template <class T>
BlockFunctions<T> make_functions(Keeper& keep, nb::tuple record) {
  const Array codes = keep.array(record[0]);
  const std::uint8_t* code = data_of<std::uint8_t>(codes);
  for (std::size_t i = 0; i < codes.size(); ++i) loss_of(code[i]);
  BlockFunctions<T> f;
  f.loss = reinterpret_cast<const Loss*>(code);  // a Loss is a std::uint8_t
  f.e = keep.vector<T>(record[1]);
  f.diagonal = keep.vector<T>(record[2]);
  f.linear = keep.vector<T>(record[3]);
  f.A = make_matrix<T>(keep, nb::cast<nb::tuple>(record[4]));
  f.H = make_matrix<T>(keep, nb::cast<nb::tuple>(record[5]));
  f.target = keep.vector<T>(record[6]);
  f.at = keep.vector<std::int64_t>(record[7]);
  return f;
}

// (loss, e, A, target)
template <class T>
Coupling<T> make_coupling(Keeper& keep, nb::tuple record) {
  return {loss_of(nb::cast<std::uint8_t>(record[0])), nb::cast<T>(record[1]),
          make_matrix<T>(keep, nb::cast<nb::tuple>(record[2])), keep.vector<T>(record[3])};
}

// (M, f, b)
template <class T>
BlockProblem<T> make_problem(Keeper& keep, nb::tuple record) {
  return {make_matrix<T>(keep, nb::cast<nb::tuple>(record[0])),
          make_functions<T>(keep, nb::cast<nb::tuple>(record[1])), keep.vector<T>(record[2])};
}

// (key, shared, period, rebase)
inline Plan make_plan(nb::tuple record) {
  return {nb::cast<std::uint64_t>(record[0]), nb::cast<bool>(record[1]), nb::cast<Index>(record[2]),
          nb::cast<Index>(record[3])};
}

inline double letter(nb::dict parameters, const char* name) { return nb::cast<double>(parameters[name]); }

// A vector of a state, by its name, to be written in place.
template <class E>
E* field(nb::dict state, const char* name, Index size) {
  const auto array = nb::cast<nb::ndarray<E, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(state[name], false);
  if (static_cast<Index>(array.size()) != size) throw std::invalid_argument(std::string(name) + " has another length");
  return array.data();
}

// What differs between the methods: their letters, their state and what else they read.
template <class T>
struct XSbcTraits {
  using Loop = XSbc<T>;
  static Loop make(Keeper&, const BlockProblem<T>& problem, nb::tuple, nb::dict p, const Plan& plan) {
    return {problem,
            {letter(p, "t"), letter(p, "s"), letter(p, "s_hat"), letter(p, "xi"), letter(p, "gamma"), letter(p, "chi")},
            plan};
  }
  static typename Loop::State state(nb::dict s, Index rows, Index columns, Index) {
    return {field<T>(s, "x", columns), field<T>(s, "z", columns), field<T>(s, "g", columns), field<T>(s, "y", rows),
            field<T>(s, "Mx_hat", rows)};
  }
};

template <class T>
struct YSbcTraits {
  using Loop = YSbc<T>;
  static Loop make(Keeper& keep, const BlockProblem<T>& problem, nb::tuple MMt, nb::dict p, const Plan& plan) {
    return {problem,
            make_matrix<T>(keep, MMt),
            {letter(p, "t"), letter(p, "t_tilde"), letter(p, "s"), letter(p, "s_hat"), letter(p, "xi"),
             letter(p, "tau")},
            plan};
  }
  static typename Loop::State state(nb::dict s, Index rows, Index columns, Index) {
    return {field<T>(s, "x", columns), field<T>(s, "g", columns),    field<T>(s, "y", rows),
            field<T>(s, "w", rows),    field<T>(s, "forward", rows), field<T>(s, "MMty", rows)};
  }
};

template <class T>
struct XSbcNonseparableTraits {
  using Loop = XSbcNonseparable<T>;
  static Loop make(Keeper& keep, const BlockProblem<T>& problem, nb::tuple joint, nb::dict p, const Plan& plan) {
    return {problem,
            make_coupling<T>(keep, joint),
            {letter(p, "t"), letter(p, "s"), letter(p, "s_hat"), letter(p, "xi"), letter(p, "gamma"),
             letter(p, "chi"), letter(p, "omega")},
            plan};
  }
  static typename Loop::State state(nb::dict s, Index rows, Index columns, Index joint_rows) {
    return {field<T>(s, "c", columns),     field<T>(s, "e", columns),     field<T>(s, "y", rows),
            field<T>(s, "Mc", rows),       field<T>(s, "Me", rows),       field<T>(s, "Ac", joint_rows),
            field<T>(s, "Ae", joint_rows), field<double>(s, "scale", 1)};
  }
};

template <class T, template <class> class Traits>
class PythonBlockLoop {
 public:
  using Loop = typename Traits<T>::Loop;
  using Progress = nb::ndarray<std::int64_t, nb::shape<3>, nb::c_contig, nb::device::cpu>;
  using Clock = std::chrono::steady_clock;

  // `work` is the multiplications of an iteration, `joint_rows` the length of Ac.
  PythonBlockLoop(nb::tuple problem, nb::tuple more, nb::dict parameters, nb::tuple plan, double work,
                  Index joint_rows)
      : problem_(make_problem<T>(keep_, problem)),
        loop_(Traits<T>::make(keep_, problem_, more, parameters, make_plan(plan))), joint_rows_(joint_rows),
        at_once_(static_cast<Index>(std::max(1.0, ENOUGH / std::max(work, 1.0)))) {}

  // Iterations in the arrays of the state; returns how many were done in the seconds. `progress` counts iterations,
  // block products and block gradients, and is true even if Ctrl-C ends the call.
  Index run(nb::dict state, Progress progress, Index steps, double seconds) {
    const auto arrays = Traits<T>::state(state, problem_.rows(), problem_.columns(), joint_rows_);
    std::int64_t* counted = progress.data();
    Index done = 0;
    bool interrupted = false;
    {
      nb::gil_scoped_release released;
      std::lock_guard<std::mutex> alone(mutex_);  // the buffers serve one call at a time
      const auto began = Clock::now();
      auto asked = began;
      while (done < steps && !interrupted) {
        const Index now = std::min(at_once_, steps - done);
        BlockCounts spent;
        loop_.run(arrays, static_cast<Index>(counted[0]), now, spent);
        done += now;
        counted[0] += now;
        counted[1] += spent.products;
        counted[2] += spent.gradients;
        const auto time = Clock::now();
        if (std::chrono::duration<double>(time - began).count() >= seconds) break;
        if (time - asked >= std::chrono::milliseconds(50)) {
          asked = time;
          nb::gil_scoped_acquire held;
          interrupted = PyErr_CheckSignals() != 0;
        }
      }
    }
    if (interrupted) throw nb::python_error();
    return done;
  }

  // Set what the loop keeps besides the state that the method defines.
  void prepare(nb::dict state) {
    if constexpr (requires(Loop& loop, typename Loop::State s) { loop.refresh_joint(s); }) {
      loop_.refresh_joint(Traits<T>::state(state, problem_.rows(), problem_.columns(), joint_rows_));
    }
  }

 private:
  static constexpr double ENOUGH = 2e6;  // multiplications between two looks at the clock, about a millisecond

  Keeper keep_;
  BlockProblem<T> problem_;
  Loop loop_;
  Index joint_rows_, at_once_;
  std::mutex mutex_;
};

template <class T, template <class> class Traits>
void bind_loop(nb::module_& module, const std::string& name) {
  using Class = PythonBlockLoop<T, Traits>;
  nb::class_<Class>(module, name.c_str())
      .def(nb::init<nb::tuple, nb::tuple, nb::dict, nb::tuple, double, Index>())
      .def("run", &Class::run)
      .def("prepare", &Class::prepare);
}

template <class T>
void bind_loops(nb::module_& module, const std::string& bits) {
  bind_loop<T, XSbcTraits>(module, "XSbc" + bits);
  bind_loop<T, YSbcTraits>(module, "YSbc" + bits);
  bind_loop<T, XSbcNonseparableTraits>(module, "XSbcNonseparable" + bits);
}

void bind_blocks(nb::module_& module) {
  bind_loops<double>(module, "64");
  bind_loops<float>(module, "32");
}

}  // namespace dapd
