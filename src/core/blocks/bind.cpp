// The block-coordinate loops as Python classes; the records come from engines/native/block_tables.py, and are checked here.
#include <nanobind/stl/string.h>

#include <chrono>
#include <mutex>
#include <string>

#include "../records.hpp"
#include "x_sbc.hpp"
#include "x_sbc_nonseparable.hpp"
#include "y_sbc.hpp"

namespace dapd {

// A loss that is not called.
inline Loss own_loss(std::uint8_t code) {
  require(loss_of(code) != Loss::CALLED, "f", "has a loss that is only available in Python");
  return loss_of(code);
}

// (first, rows, stride, at, dense, indptr, indices, values)
template <class T>
BlockMatrix<T> make_matrix(Keeper& keep, nb::handle object, const char* name) {
  const nb::tuple record = record_of(object, name, 8);
  const Array first = keep.array(record[0]), rows = keep.array(record[1]), dense = keep.array(record[4]),
              indptr = keep.array(record[5]), indices = keep.array(record[6]), values = keep.array(record[7]);
  BlockMatrix<T> B;
  B.blocks = static_cast<Index>(rows.size());
  require(0 < B.blocks && B.blocks <= UINT32_MAX, name, "must have blocks");
  require_size("first", first.size(), B.blocks + 1);
  B.first = data_of<std::int64_t>(first);
  require(B.first[B.blocks] <= LONGEST, "first", "ends with more columns than can be counted");
  require_rising("first", B.first, first.size(), B.first[B.blocks], false);
  B.rows = data_of<std::int64_t>(rows);
  B.stride = keep.vector<std::int64_t>(record[2], B.blocks, "stride");
  B.at = keep.vector<std::int64_t>(record[3], B.blocks, "at");
  B.dense = data_of<T>(dense);
  B.sparse = {data_of<std::uint32_t>(indptr), data_of<std::uint32_t>(indices), data_of<T>(values)};
  require_size("indptr", indptr.size(), B.first[B.blocks] + 1);
  require_starts(B.sparse.indptr, B.first[B.blocks], std::min(indices.size(), values.size()));
  const Index size = static_cast<Index>(dense.size());
  for (Index i = 0; i < B.blocks; ++i) {
    require(0 <= B.rows[i] && B.rows[i] <= LONGEST, name, "has a block of rows that cannot be counted");
    if (B.is_sparse(i)) {
      const std::uint32_t *from = B.sparse.indptr + B.first[i], *to = B.sparse.indptr + B.first[i + 1];
      require_within(B.sparse.indices + *from, static_cast<Index>(*to - *from), B.rows[i]);
    } else if (B.rows[i] > 0 && B.columns(i) > 0) {
      require(B.rows[i] <= B.stride[i] && B.at[i] <= size && B.stride[i] <= (size - B.at[i]) / B.columns(i), name,
              "has a block beyond its entries");
    }
  }
  return B;
}

// Whether the blocks have the same columns.
template <class T>
void require_alike(const BlockMatrix<T>& A, const BlockMatrix<T>& M, const char* name) {
  require(A.blocks == M.blocks && std::equal(A.first, A.first + A.blocks + 1, M.first), name, "has other blocks than M");
}

template <class T>
void require_same_rows(const BlockMatrix<T>& B, const char* name) {
  require(std::count(B.rows, B.rows + B.blocks, B.rows[0]) == B.blocks, name, "has blocks of different heights");
}

// (loss, e, diagonal, linear, A, H, target, at)
template <class T>
BlockFunctions<T> make_functions(Keeper& keep, nb::handle object, const BlockMatrix<T>& M) {
  const nb::tuple record = record_of(object, "f", 8);
  const Index columns = M.first[M.blocks];
  const std::uint8_t* code = keep.vector<std::uint8_t>(record[0], M.blocks, "loss");
  for (Index i = 0; i < M.blocks; ++i) own_loss(code[i]);
  BlockFunctions<T> f;
  f.loss = reinterpret_cast<const Loss*>(code);  // a Loss is a std::uint8_t
  f.e = keep.vector<T>(record[1], M.blocks, "e");
  f.diagonal = keep.vector<T>(record[2], columns, "diagonal");
  f.linear = keep.vector<T>(record[3], columns, "linear");
  f.A = make_matrix<T>(keep, record[4], "A");
  f.H = make_matrix<T>(keep, record[5], "H");
  require_alike(f.A, M, "A");
  require_alike(f.H, M, "H");
  const Array target = keep.array(record[6]);
  f.target = data_of<T>(target);
  f.at = keep.vector<std::int64_t>(record[7], M.blocks, "at");
  for (Index i = 0; i < M.blocks; ++i) {
    require(f.H.rows[i] == 0 || f.H.rows[i] == M.columns(i), "H", "has a block that is not square");
    const Index count = f.A.rows[i] > 0 ? static_cast<Index>(f.A.rows[i]) : M.columns(i);
    require(f.at[i] < 0 || (f.at[i] <= static_cast<Index>(target.size()) &&
                            count <= static_cast<Index>(target.size()) - f.at[i]),
            "target", "is too short");
    require(f.loss[i] != Loss::LOGISTIC || f.at[i] >= 0, "f", "has a logistic loss without labels");
  }
  return f;
}

// (loss, e, A, target)
template <class T>
Coupling<T> make_coupling(Keeper& keep, nb::handle object, const BlockMatrix<T>& M, Index joint_rows) {
  const nb::tuple record = record_of(object, "the joint function", 4);
  Coupling<T> joint{own_loss(cast<std::uint8_t>(record[0], "loss")), cast<T>(record[1], "e"),
                    make_matrix<T>(keep, record[2], "A")};
  require_alike(joint.A, M, "A");
  require_same_rows(joint.A, "A");
  require(joint.rows() == joint_rows, "joint_rows", "must be the rows of A");
  require(joint.loss != Loss::NONE || joint_rows == 0 || joint_rows == M.first[M.blocks], "A",
          "must be square without a loss");
  joint.target = keep.vector_or_null<T>(record[3], joint_rows, "target");
  require(joint.loss != Loss::LOGISTIC || joint.target, "f", "has a logistic loss without labels");
  return joint;
}

// (M, f, b)
template <class T>
BlockProblem<T> make_problem(Keeper& keep, nb::handle object) {
  const nb::tuple record = record_of(object, "the problem", 3);
  BlockProblem<T> problem;
  problem.M = make_matrix<T>(keep, record[0], "M");
  require_same_rows(problem.M, "M");
  problem.f = make_functions<T>(keep, record[1], problem.M);
  problem.b = keep.vector<T>(record[2], problem.rows(), "b");
  return problem;
}

// (key, shared, period, rebase)
inline Plan make_plan(nb::handle object) {
  const nb::tuple record = record_of(object, "the plan", 4);
  const Plan plan{cast<std::uint64_t>(record[0], "key"), cast<bool>(record[1], "shared"),
                  cast<Index>(record[2], "period"), cast<Index>(record[3], "rebase")};
  require(plan.period > 0 && plan.rebase > 0, "period and rebase", "must be at least 1");
  return plan;
}

// The letters of a method, in the order of its Parameters.
template <class Loop, class... Names>
typename Loop::Parameters letters(nb::dict parameters, Names... names) {
  return {cast<double>(parameters[names], names)...};
}

// A vector of a state, by its name, to be written in place.
template <class E>
E* field(nb::dict state, const char* name, Index size) {
  nb::ndarray<E, nb::ndim<1>, nb::c_contig, nb::device::cpu> array;
  if (!nb::try_cast(nb::object(state[name]), array, false)) {
    throw nb::type_error((std::string(name) + " must be a vector to write to, of the right dtype").c_str());
  }
  require_size(name, array.size(), size);
  return array.data();
}

// What differs between the methods: their letters, their state and what else they read.
template <class T>
struct XSbcTraits {
  using Loop = XSbc<T>;
  static Loop make(Keeper&, const BlockProblem<T>& problem, nb::tuple, nb::dict p, const Plan& plan, Index) {
    return {problem, letters<Loop>(p, "t", "s", "s_hat", "xi", "gamma", "chi"), plan};
  }
  static typename Loop::State state(nb::dict s, Index rows, Index columns, Index) {
    return {field<T>(s, "x", columns), field<T>(s, "z", columns), field<T>(s, "g", columns), field<T>(s, "y", rows),
            field<T>(s, "Mx_hat", rows)};
  }
};

template <class T>
struct YSbcTraits {
  using Loop = YSbc<T>;
  static Loop make(Keeper& keep, const BlockProblem<T>& problem, nb::tuple more, nb::dict p, const Plan& plan, Index) {
    const auto MMt = make_matrix<T>(keep, more, "MMᵀ");
    require(MMt.blocks == 1 && (MMt.rows[0] == 0 || (MMt.rows[0] == problem.rows() && MMt.columns(0) == problem.rows())),
            "MMᵀ", "must have no rows, or as many rows and columns as M has rows");
    return {problem, MMt, letters<Loop>(p, "t", "t_tilde", "s", "s_hat", "xi", "tau"), plan};
  }
  static typename Loop::State state(nb::dict s, Index rows, Index columns, Index) {
    return {field<T>(s, "x", columns), field<T>(s, "g", columns),    field<T>(s, "y", rows),
            field<T>(s, "w", rows),    field<T>(s, "forward", rows), field<T>(s, "MMty", rows)};
  }
};

template <class T>
struct XSbcNonseparableTraits {
  using Loop = XSbcNonseparable<T>;
  static Loop make(Keeper& keep, const BlockProblem<T>& problem, nb::tuple joint, nb::dict p, const Plan& plan,
                   Index joint_rows) {
    return {problem, make_coupling<T>(keep, joint, problem.M, joint_rows),
            letters<Loop>(p, "t", "s", "s_hat", "xi", "gamma", "chi", "omega"), plan};
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
        loop_(Traits<T>::make(keep_, problem_, more, parameters, make_plan(plan), joint_rows)), joint_rows_(joint_rows),
        at_once_(static_cast<Index>(std::max(1.0, ENOUGH / std::max(1.0, work)))) {}  // a NaN counts as 1

  // Iterations in the arrays of the state; returns how many were done in the seconds. `progress` counts iterations,
  // block products and block gradients, and is true even if Ctrl-C ends the call.
  Index run(nb::dict state, Progress progress, Index steps, double seconds) {
    require(steps >= 0, "steps", "must be at least 0");
    require(!std::isnan(seconds), "seconds", "must be a number");
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
      .def("run", &Class::run, nb::arg(), nb::arg().noconvert(), nb::arg(), nb::arg())  // not to count in a copy
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
