// The Python module: turns the records of model/lowered.py into the classes of the core. Python has checked everything.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "arrays.hpp"
#include "blocks/bind.hpp"
#include "certificate.hpp"
#include "dense_steps.hpp"
#include "products.hpp"
#include "runner.hpp"
#include "runs.hpp"
#include "sorted_rows.hpp"
#include "structured_steps.hpp"
#include "symbolic.hpp"
#include "tiles.hpp"

namespace dapd {

template <class T>
Phi<T> make_phi(Keeper& keep, nb::tuple record, Index rows) {
  const Array first = keep.array(record[0]), code = keep.array(record[1]), lower = keep.array(record[2]),
              upper = keep.array(record[3]);
  Phi<T> phi;
  phi.rows = rows;
  if (first.size() > 0) {
    phi.first = data_of<std::int64_t>(first);
    phi.groups = static_cast<Index>(first.size()) - 1;
  }
  phi.code = data_of<std::uint8_t>(code);
  phi.lower = data_of<T>(lower);
  phi.upper = data_of<T>(upper);
  phi.one_code = code.size() == 1 && !phi.first;
  phi.one_lower = lower.size() == 1 && !phi.first;
  phi.one_upper = upper.size() == 1 && !phi.first;
  for (std::size_t k = 0; k < code.size(); ++k) {
    if (phi.code[k] >= CODES) throw std::invalid_argument("phi has an unknown code");
  }
  return phi;
}

// Calls with the matrix as T or, if T is double, as float.
template <class T, class Call>
auto with_entries(const Array& array, Call call) {
  if (holds<T>(array)) return call(static_cast<const T*>(array.data()));
  return call(data_of<float>(array));
}

// Indices are not negative, and without a sign they need not be extended. `Signed` is what NumPy has them as.
template <class Signed, class T, class S>
auto csr_of(const Array& indptr, const Array& indices, const S* entries) {
  using I = std::make_unsigned_t<Signed>;
  return Csr<T, S, I>{reinterpret_cast<const I*>(data_of<Signed>(indptr)),
                      reinterpret_cast<const I*>(data_of<Signed>(indices)), entries};
}

template <class T, class Call>
auto with_short_csr(Keeper& keep, nb::tuple record, Call call) {
  const Array indptr = keep.array(record[1]), indices = keep.array(record[2]);
  return with_entries<T>(keep.array(record[3]),
                         [&](auto* entries) { return call(csr_of<std::int32_t, T>(indptr, indices, entries)); });
}

template <class T, class Call>
auto with_csr(Keeper& keep, nb::tuple record, Call call) {
  const Array indptr = keep.array(record[1]), indices = keep.array(record[2]);
  if (holds<std::int32_t>(indices)) return with_short_csr<T>(keep, record, call);
  return with_entries<T>(keep.array(record[3]),
                         [&](auto* entries) { return call(csr_of<std::int64_t, T>(indptr, indices, entries)); });
}

inline std::string kind_of(nb::tuple record) { return nb::cast<std::string>(record[0]); }
inline Index index_of(nb::handle value) { return nb::cast<Index>(value); }

// ("dense", array, transposed), ("csr", indptr, indices, values) and ("identity", rows, left) can stand on one another.
template <class T>
std::unique_ptr<RowMap<T>> make_rows(Keeper& keep, nb::tuple record, Index rows, Index columns, Index first_row) {
  using Result = std::unique_ptr<RowMap<T>>;
  const std::string kind = kind_of(record);
  if (kind == "dense") {
    return with_entries<T>(keep.array(record[1]), [&](auto* M) -> Result {
      using S = std::remove_cv_t<std::remove_pointer_t<decltype(M)>>;
      if (nb::cast<bool>(record[2])) return std::make_unique<DenseColumns<T, S>>(M, rows, columns, first_row);
      return std::make_unique<DenseRows<T, S>>(M, rows, columns, first_row);
    });
  }
  if (kind == "csr") {
    return with_csr<T>(keep, record, [&](auto M) -> Result {
      return std::make_unique<CsrRows<T, std::remove_cv_t<std::remove_pointer_t<decltype(M.values)>>,
                                      std::remove_cv_t<std::remove_pointer_t<decltype(M.indptr)>>>>(M, rows, first_row);
    });
  }
  if (kind == "identity") return std::make_unique<IdentityRows<T>>(rows, index_of(record[2]), first_row);
  throw std::invalid_argument("rows of kind " + kind + " cannot be stacked");
}

// ("tiles", "sorted" or "runs", indptr, indices, values) or ("identity", rows, left).
template <class T>
std::unique_ptr<TwoWayRows<T>> make_two_way(Keeper& keep, const Phi<T>& phi, nb::tuple record, Index rows, Index columns,
                                            Index first_row) {
  using Result = std::unique_ptr<TwoWayRows<T>>;
  const std::string kind = kind_of(record);
  if (kind == "identity") return std::make_unique<TwoWayIdentity<T>>(rows, index_of(record[2]), first_row);
  if (kind != "tiles" && kind != "sorted" && kind != "runs") {
    throw std::invalid_argument("rows of kind " + kind + " have one way only");
  }
  return with_short_csr<T>(keep, record, [&](auto M) -> Result {
    using S = std::remove_cv_t<std::remove_pointer_t<decltype(M.values)>>;
    if (kind == "runs") return std::make_unique<TwoWayRuns<T, S>>(M, rows, columns, first_row);
    if (kind == "sorted") return std::make_unique<TwoWaySorted<T, S>>(phi, M, rows, columns, first_row);
    return std::make_unique<TwoWayTiles<T, S>>(phi, M, rows, columns, first_row);
  });
}

// The rows of a record, or of those that ("stacked", (rows, record), …) stands on one another.
template <class Call>
auto made_of(nb::tuple record, Index rows, Call call) {
  std::vector<decltype(call(record, rows, Index(0)))> parts;
  if (kind_of(record) != "stacked") {
    parts.push_back(call(record, rows, 0));
    return parts;
  }
  Index first_row = 0;
  for (std::size_t k = 1; k < record.size(); ++k) {
    const auto part = nb::cast<nb::tuple>(record[k]);
    const Index height = index_of(part[0]);
    parts.push_back(call(nb::cast<nb::tuple>(part[1]), height, first_row));
    first_row += height;
  }
  return parts;
}

template <class T>
std::unique_ptr<DualStep<T>> make_dual_step(Keeper& keep, nb::tuple record, nb::tuple phi_record, Index rows,
                                            Index columns) {
  using Result = std::unique_ptr<DualStep<T>>;
  const Phi<T> phi = make_phi<T>(keep, phi_record, rows);
  const std::string kind = kind_of(record);
  if (kind == "strips") {  // ("strips", array, transposed)
    return with_entries<T>(keep.array(record[1]), [&](auto* M) -> Result {
      using S = std::remove_cv_t<std::remove_pointer_t<decltype(M)>>;
      return std::make_unique<DenseStrips<T, S>>(phi, M, columns, nb::cast<bool>(record[2]));
    });
  }
  if (kind == "kronecker") {  // ("kronecker", A, B or None, rows of B, columns of B)
    const Array A = keep.array(record[1]);
    const T* B = keep.vector<T>(record[2]);
    return std::make_unique<Kronecker<T>>(phi, data_of<T>(A), A.shape(0), A.shape(1), B, index_of(record[3]),
                                          index_of(record[4]));
  }
  if (kind == "block-diagonal") {  // ("block-diagonal", entries, at, row, column)
    const auto ends = [&](nb::handle object) {
      const Array array = keep.array(object);
      const std::int64_t* data = data_of<std::int64_t>(array);
      return Ends(data, data + array.size());
    };
    return with_entries<T>(keep.array(record[1]), [&](auto* entries) -> Result {
      using S = std::remove_cv_t<std::remove_pointer_t<decltype(entries)>>;
      return std::make_unique<BlockDiagonal<T, S>>(phi, entries, ends(record[2]), ends(record[3]), ends(record[4]));
    });
  }
  if (kind == "two-way") {  // ("two-way", record), the parts as above
    auto parts = made_of(nb::cast<nb::tuple>(record[1]), rows, [&](nb::tuple part, Index height, Index first_row) {
      return make_two_way<T>(keep, phi, part, height, columns, first_row);
    });
    return std::make_unique<TwoWay<T>>(phi, columns, std::move(parts));
  }
  auto maps = made_of(record, rows, [&](nb::tuple part, Index height, Index first_row) {
    return make_rows<T>(keep, part, height, columns, first_row);
  });
  return std::make_unique<ByRows<T>>(phi, columns, std::move(maps));
}

template <class T>
std::unique_ptr<Rows<T>> make_hessian(Keeper& keep, nb::tuple record, Index size) {
  using Result = std::unique_ptr<Rows<T>>;
  if (kind_of(record) == "dense") {
    return with_entries<T>(keep.array(record[1]), [&](auto* H) -> Result {
      return std::make_unique<DenseTimes<T, std::remove_cv_t<std::remove_pointer_t<decltype(H)>>>>(H, size);
    });
  }
  return with_csr<T>(keep, record, [&](auto H) -> Result {
    return std::make_unique<CsrTimes<T, std::remove_cv_t<std::remove_pointer_t<decltype(H.values)>>,
                                     std::remove_cv_t<std::remove_pointer_t<decltype(H.indptr)>>>>(H, size);
  });
}

// (size, loss table or None, A record or None, rows of A, base or None, ridge, diagonal or None, H record or None,
//  −c or None) for one function; a list of such for a separable one.
template <class T>
std::unique_ptr<Gradient<T>> make_gradient(Keeper& keep, nb::handle object) {
  if (nb::isinstance<nb::list>(object)) {
    std::vector<std::unique_ptr<Gradient<T>>> parts;
    Ends first{0};
    for (nb::handle part : nb::cast<nb::list>(object)) {
      parts.push_back(make_gradient<T>(keep, part));
      first.push_back(first.back() + index_of(nb::cast<nb::tuple>(part)[0]));
    }
    return std::make_unique<SeparableGradient<T>>(std::move(parts), std::move(first));
  }
  const auto record = nb::cast<nb::tuple>(object);
  const Index size = index_of(record[0]);
  Terms<T> terms;
  if (!record[1].is_none()) {
    const auto table = nb::cast<nb::tuple>(record[1]);
    if (record[2].is_none()) {
      terms.has_loss_of_x = true;
      terms.loss_of_x = make_phi<T>(keep, table, size);
      terms.shift = keep.vector<T>(record[4]);
    } else {
      terms.loss_of_Ax = make_dual_step<T>(keep, nb::cast<nb::tuple>(record[2]), table, index_of(record[3]), size);
      terms.base = keep.vector<T>(record[4]);
    }
  }
  terms.ridge = nb::cast<T>(record[5]);
  terms.diagonal = keep.vector<T>(record[6]);
  if (!record[7].is_none()) terms.matrix = make_hessian<T>(keep, nb::cast<nb::tuple>(record[7]), size);
  terms.minus_c = keep.vector<T>(record[8]);
  return std::make_unique<TermsGradient<T>>(std::move(terms), size);
}

inline Program make_program(nb::tuple record) {
  Program program;
  program.dual = nb::cast<std::vector<bool>>(record[0]);
  for (nb::handle item : nb::cast<nb::list>(record[1])) {
    const auto step = nb::cast<nb::tuple>(item);
    Instruction made;
    made.kind = static_cast<Instruction::Kind>(nb::cast<int>(step[0]));
    made.out = nb::cast<int>(step[1]);
    made.second = nb::cast<int>(step[2]);
    for (nb::handle term : nb::cast<nb::list>(step[3])) {
      const auto pair = nb::cast<nb::tuple>(term);
      made.terms.push_back({nb::cast<int>(pair[0]), nb::cast<double>(pair[1])});
    }
    made.step = nb::cast<double>(step[4]);
    program.instructions.push_back(std::move(made));
  }
  program.next = nb::cast<std::vector<int>>(record[2]);
  return program;
}

// Seconds from now until a step is given up.
inline std::chrono::steady_clock::time_point after(double seconds) {
  constexpr double LONGEST = 1e8;
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(std::min(std::max(seconds, 0.0), LONGEST)));
}

template <class T>
class PythonRunner {
 public:
  PythonRunner(nb::tuple program, nb::tuple M, nb::tuple phi, nb::object f, Index rows, Index columns)
      : runner_(make_program(program), make_dual_step<T>(keep_, M, phi, rows, columns), make_gradient<T>(keep_, f)) {}

  void use(nb::tuple program) {
    Program made = make_program(program);
    nb::gil_scoped_release released;  // a run that asks for Ctrl-C needs Python's lock to end
    std::lock_guard<std::mutex> alone(mutex_);
    runner_.use(std::move(made));
  }
  void set(int reg, nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> from) {
    if (static_cast<Index>(from.size()) != runner_.size(reg)) throw std::invalid_argument("a vector of another length");
    std::copy(from.data(), from.data() + from.size(), runner_.data(reg));
  }
  void get(int reg, nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu> to) {
    if (static_cast<Index>(to.size()) != runner_.size(reg)) throw std::invalid_argument("a vector of another length");
    std::copy(runner_.data(reg), runner_.data(reg) + to.size(), to.data());
  }
  Index run(Index steps, int threads, double seconds) {
    bool interrupted = false;
    const Watch watch{after(seconds), [&] {
                        nb::gil_scoped_acquire held;
                        return interrupted = PyErr_CheckSignals() != 0;
                      }};
    Index done = 0;
    {
      nb::gil_scoped_release released;
      std::lock_guard<std::mutex> alone(mutex_);  // the registers serve one call at a time
      done = runner_.run(steps, threads, watch);
    }
    taken_ = done;  // only with Python's lock: another thread may be running this too
    if (interrupted) throw nb::python_error();
    return done;
  }
  Index taken() const { return taken_; }
  double work() const { return runner_.work(); }

 private:
  Keeper keep_;
  Runner<T> runner_;
  std::mutex mutex_;
  Index taken_ = 0;  // steps of the last run: known after a Ctrl-C too
};

// One dual step at a time, for Python to call.
template <class T>
class PythonDualStep {
 public:
  using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Result = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

  PythonDualStep(nb::tuple M, nb::tuple phi, Index rows, Index columns)
      : map_(make_dual_step<T>(keep_, M, phi, rows, columns)) {}

  void run(Vector v, Vector base, T step, Result y, Result out, int threads) {
    if (static_cast<Index>(v.size()) != map_->columns || static_cast<Index>(out.size()) != map_->columns ||
        static_cast<Index>(base.size()) != map_->rows || static_cast<Index>(y.size()) != map_->rows) {
      throw std::invalid_argument("a vector of another length");
    }
    const Vectors<T> vectors{v.data(), base.data(), step, y.data(), out.data(), 0};
    nb::gil_scoped_release released;
    std::lock_guard<std::mutex> alone(mutex_);
    if (map_->threads != threads) map_->share(threads, nullptr);
    Team team(threads);
    const auto phases = [&](int rank) {
      for (int phase = 0; phase < map_->phases(); ++phase) {
        if (phase > 0 && threads > 1) team.meet(rank);
        map_->run(phase, rank, vectors);
      }
    };
    if (threads > 1 && Pool::instance().run(threads, phases)) return;
    if (map_->threads != 1) map_->share(1, nullptr);
    for (int phase = 0; phase < map_->phases(); ++phase) map_->run(phase, 0, vectors);
  }
  double work() const { return map_->work(); }

 private:
  Keeper keep_;
  std::unique_ptr<DualStep<T>> map_;
  std::mutex mutex_;
};

template <class T>
void bind(nb::module_& module, const char* runner, const char* dual_step) {
  nb::class_<PythonRunner<T>>(module, runner)
      .def(nb::init<nb::tuple, nb::tuple, nb::tuple, nb::object, Index, Index>())
      .def("use", &PythonRunner<T>::use)
      .def("set", &PythonRunner<T>::set)
      .def("get", &PythonRunner<T>::get)
      .def("run", &PythonRunner<T>::run)
      .def_prop_ro("taken", &PythonRunner<T>::taken)
      .def_prop_ro("work", &PythonRunner<T>::work);
  nb::class_<PythonDualStep<T>>(module, dual_step)
      .def(nb::init<nb::tuple, nb::tuple, Index, Index>())
      .def("run", &PythonDualStep<T>::run)
      .def_prop_ro("work", &PythonDualStep<T>::work);
}

// Seconds per meeting of so many threads.
double meeting(int threads, Index times) {
  nb::gil_scoped_release released;
  Team team(threads);
  const auto began = std::chrono::steady_clock::now();
  Pool::instance().run(threads, [&](int rank) {
    for (Index k = 0; k < times; ++k) team.meet(rank);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / static_cast<double>(times);
}

// The data of vectors of one length.
std::vector<const double*> data_of_all(const std::vector<Array>& vectors, Index length) {
  std::vector<const double*> at;
  for (const Array& vector : vectors) {
    if (static_cast<Index>(vector.size()) != length) throw std::invalid_argument("a vector of another length");
    at.push_back(data_of<double>(vector));
  }
  return at;
}

// The sums of `RowSums`, in its order, from a table of φ and vectors as in `RowsAt`.
std::vector<double> rows_of_certificate(nb::tuple table, std::vector<Array> vectors) {
  Keeper keep;
  const auto rows = static_cast<Index>(vectors.at(0).size());
  const Phi<double> phi = make_phi<double>(keep, table, rows);
  const auto at = data_of_all(vectors, rows);
  nb::gil_scoped_release released;
  const auto s = certify_rows(phi, {at.at(0), at.at(1), at.at(2), at.at(3), at.at(4), at.at(5)});
  return {s.squares, s.complementarity, s.outside, s.primal, s.dual, s.conjugate, s.value, s.product, s.sizes};
}

// The sums of `ColumnSums`, in its order, from vectors as in `ColumnsAt`.
std::vector<double> columns_of_certificate(std::vector<Array> vectors) {
  const auto columns = static_cast<Index>(vectors.at(0).size());
  const auto at = data_of_all(vectors, columns);
  nb::gil_scoped_release released;
  ColumnsAt all{at.at(0), at.at(1), at.at(2), at.at(3), at.at(4), at.at(5)};
  if (at.size() > 6) all.lower = at.at(6), all.upper = at.at(7), all.units = at.at(8);
  const auto s = certify_columns(all, columns);
  return {s.squares, s.greatest, s.stationarity, s.natural, s.complementarity, s.primal, s.outside, s.product, s.sizes};
}

// `Products`, in its order, from a matrix as in `make_rows`, x and y.
void products_of_certificate(nb::tuple record, std::vector<Array> point,
                             std::vector<nb::ndarray<double, nb::c_contig, nb::device::cpu>> found) {
  Keeper keep;
  const Array& x = point.at(0);
  const Array& y = point.at(1);
  const double *x_data = data_of<double>(x), *y_data = data_of<double>(y);
  const auto rows = static_cast<Index>(y.size()), columns = static_cast<Index>(x.size());
  const std::size_t sizes[] = {y.size(), y.size(), x.size(), x.size()};
  for (std::size_t k = 0; k < 4; ++k) {
    if (found.at(k).size() != sizes[k]) throw std::invalid_argument("a result has the wrong size");
  }
  const Products out{found[0].data(), found[1].data(), found[2].data(), found[3].data()};
  if (kind_of(record) == "dense") {
    const bool transposed = nb::cast<bool>(record[2]);
    const Array array = keep.array(record[1]);
    if (array.size() != x.size() * y.size()) throw std::invalid_argument("the matrix has another size than x and y");
    with_entries<double>(array, [&](auto* entries) {
      nb::gil_scoped_release released;
      if (transposed) {
        multiply(entries, y_data, x_data, columns, rows, out.transposed());
      } else {
        multiply(entries, x_data, y_data, rows, columns, out);
      }
    });
    return;
  }
  const Array indptr = keep.array(record[1]), indices = keep.array(record[2]), values = keep.array(record[3]);
  const auto *starts = data_of<std::int32_t>(indptr), *places = data_of<std::int32_t>(indices);
  if (indptr.size() != y.size() + 1 || indices.size() != values.size() || indices.size() != static_cast<std::size_t>(starts[rows])) {
    throw std::invalid_argument("the matrix has another size than x and y");
  }
  with_entries<double>(values, [&](auto* entries) {
    nb::gil_scoped_release released;
    multiply(starts, places, entries, x_data, y_data, rows, columns, out);
  });
}

// Entries and flops of LDLᵀ for a symmetric pattern, and whether all of them were counted.
std::tuple<double, double, bool> symbolic_cost(Array indptr, Array indices, double fill_limit, double flops_limit) {
  const auto size = static_cast<std::int32_t>(indptr.size()) - 1;
  const auto* starts = data_of<std::int64_t>(indptr);
  const auto* columns = data_of<std::int32_t>(indices);
  nb::gil_scoped_release released;
  const SymbolicCost cost = MinimumDegree(size, starts, columns).run(fill_limit, flops_limit);
  return {cost.fill, cost.flops, cost.complete};
}

}  // namespace dapd

NB_MODULE(DAPD_MODULE, module) {
  module.attr("vector_bytes") = dapd::VECTOR_BYTES;
  dapd::bind<double>(module, "Runner64", "DualStep64");
  dapd::bind<float>(module, "Runner32", "DualStep32");
  dapd::bind_blocks(module);
  module.def("meeting", &dapd::meeting);
  module.def("symbolic_cost", &dapd::symbolic_cost);
  module.def("rows_of_certificate", &dapd::rows_of_certificate);
  module.def("columns_of_certificate", &dapd::columns_of_certificate);
  module.def("products_of_certificate", &dapd::products_of_certificate);
  module.def("use_blas", [](nb::capsule dgemm, nb::capsule sgemm) {
    dapd::dgemm = reinterpret_cast<dapd::Dgemm>(dgemm.data());
    dapd::sgemm = reinterpret_cast<dapd::Sgemm>(sgemm.data());
  });
  module.def("supported", [] {
    std::vector<std::string> found{"baseline"};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back("avx2");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw")) {
      found.push_back("avx512");
    }
#endif
    return found;
  });
}
