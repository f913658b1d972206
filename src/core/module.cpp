// The Python module: turns the records of kinds/native.py into the classes of the core, and checks them first.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "called_step.hpp"
#include "certificate.hpp"
#include "dense_steps.hpp"
#include "products.hpp"
#include "records.hpp"
#include "runner.hpp"
#include "runs.hpp"
#include "sorted_rows.hpp"
#include "structured_steps.hpp"
#include "symbolic.hpp"
#include "units.hpp"
#include "tiles.hpp"

namespace dapd {

void bind_blocks(nb::module_& module);  // the loops of the block-coordinate methods, in blocks/bind.cpp

template <class T>
Phi<T> make_phi(Keeper& keep, nb::tuple table, Index rows) {
  const nb::tuple record = record_of(table, "phi", 4);
  const Array first = keep.array(record[0]), code = keep.array(record[1]), lower = keep.array(record[2]),
              upper = keep.array(record[3]);
  Phi<T> phi;
  phi.rows = rows;
  if (first.size() > 0) {
    phi.first = data_of<std::int64_t>(first);
    phi.groups = static_cast<Index>(first.size()) - 1;
    require_rising("first", phi.first, first.size(), rows, true);
  }
  const auto check = [&](const char* name, const Array& column, Index units) {
    if (phi.first || column.size() != 1) require_size(name, column.size(), units);
  };
  check("code", code, phi.units());
  check("lower", lower, rows);
  check("upper", upper, rows);
  phi.kind = reinterpret_cast<const Kind*>(data_of<std::uint8_t>(code));  // a Kind is a std::uint8_t
  phi.lower = data_of<T>(lower);
  phi.upper = data_of<T>(upper);
  phi.one_kind = code.size() == 1 && !phi.first;
  phi.one_lower = lower.size() == 1 && !phi.first;
  phi.one_upper = upper.size() == 1 && !phi.first;
  for (std::size_t k = 0; k < code.size(); ++k) {
    require(phi.kind[k] < KINDS, "phi", "has an unknown code");
    require(phi.first || (phi.kind[k] != BALL && phi.kind[k] != SHRINK_BALL), "phi", "has a ball without groups of rows");
  }
  return phi;
}

// Functions that compute rows of y: called with these rows, which they change, and the step. They are given for the time of
// a run, since what a user's function refers to may refer to the runner.
struct Functions {
  std::size_t count = 0;
  nb::handle given;  // a tuple, in the order of the tables
};

// (first row, last row + 1, …) of each call: together all rows of φ that are CALLED.
template <class T>
std::vector<Range> make_calls(const Phi<T>& phi, nb::tuple records) {
  std::vector<Range> calls;
  Index left = 0, end = 0;  // rows that nobody computes, and the end of the rows so far
  for (Index k = 0; k < (phi.one_kind ? 1 : phi.units()); ++k) {
    if (phi.kind[k] == CALLED) left += phi.one_kind ? phi.rows : phi.row_of(k + 1) - phi.row_of(k);
  }
  for (nb::handle item : records) {
    const nb::tuple record = record_of(item, "a call", 2);
    const Range rows{length_of(record[0], "the first row of a call"), length_of(record[1], "the end of a call")};
    require(end <= rows.start && rows.start < rows.stop && rows.stop <= phi.rows, "phi", "calls for rows out of their order");
    calls.push_back(rows);
    end = rows.stop, left -= rows.stop - rows.start;
  }
  require(left == 0, "phi", "has other rows that are called than rows with a call");
  return calls;
}

template <class T>
std::unique_ptr<DualStep<T>> with_calls(std::unique_ptr<DualStep<T>> inner, Functions& functions, std::vector<Range> calls) {
  if (calls.empty()) return inner;
  const std::size_t first = functions.count;
  functions.count += calls.size();
  const auto call = [&functions, first, calls = std::move(calls)](T* y, T step) {
    nb::gil_scoped_acquire held;
    for (std::size_t k = 0; k < calls.size(); ++k) {
      const nb::ndarray<nb::numpy, T> rows(y + calls[k].start, {static_cast<std::size_t>(calls[k].stop - calls[k].start)});
      functions.given[first + k](nb::cast(rows, nb::rv_policy::reference), static_cast<double>(step));
    }
  };
  return std::make_unique<CalledStep<T>>(std::move(inner), call);
}

// What a pointer points to.
template <class P>
using Entry = std::remove_cv_t<std::remove_pointer_t<P>>;

// Calls with the matrix as T or, if T is double, as float.
template <class T, class Call>
auto with_entries(const Array& array, Call call) {
  if (holds<T>(array)) return call(static_cast<const T*>(array.data()));
  return call(data_of<float>(array));
}

// The same for a dense matrix of this shape.
template <class T, class Call>
auto with_dense(Keeper& keep, nb::handle object, Index rows, Index columns, Call call) {
  const Array entries = keep.array(object);
  require(rows <= LONGEST / std::max<Index>(1, columns), "M", "has too many entries");
  require_size("M", entries.size(), rows * columns);
  return with_entries<T>(entries, call);
}

// Indices are not negative, and without a sign they need not be extended. `Signed` is what NumPy has them as.
template <class Signed, class T, class Call>
auto with_csr_of(Keeper& keep, nb::tuple record, Index rows, Index columns, Call call) {
  using I = std::make_unsigned_t<Signed>;
  const Array indptr = keep.array(record[1]), indices = keep.array(record[2]), values = keep.array(record[3]);
  require_csr<Signed>(indptr, rows, indices, values.size(), columns);
  return with_entries<T>(values, [&](auto* entries) {
    return call(Csr<T, Entry<decltype(entries)>, I>{reinterpret_cast<const I*>(data_of<Signed>(indptr)),
                                                    reinterpret_cast<const I*>(data_of<Signed>(indices)), entries});
  });
}

template <class T, class Call>
auto with_csr(Keeper& keep, nb::tuple record, Index rows, Index columns, Call call) {
  if (holds<std::int32_t>(keep.array(record[2]))) return with_csr_of<std::int32_t, T>(keep, record, rows, columns, call);
  return with_csr_of<std::int64_t, T>(keep, record, rows, columns, call);
}

// How many parts the record of a kind has, with its name.
inline std::size_t parts_of(const std::string& kind) {
  if (kind == "kronecker" || kind == "block-diagonal") return 5;
  if (kind == "csr" || kind == "tiles" || kind == "sorted" || kind == "runs") return 4;
  if (kind == "dense" || kind == "strips" || kind == "identity") return 3;
  return kind == "two-way" ? 2 : 1;
}

inline std::string kind_of(nb::tuple record) {
  const auto kind = cast<std::string>(record_of(record, "M", 1)[0], "the kind of M");
  record_of(record, kind.c_str(), parts_of(kind));
  return kind;
}

// The column in which so many rows of an identity begin.
inline Index left_of(nb::handle object, Index rows, Index columns) {
  const Index left = length_of(object, "left");
  require(left <= columns - rows, "identity", "has rows beyond the last column");
  return left;
}

// ("dense", array, transposed), ("csr", indptr, indices, values) and ("identity", rows, left) can stand on one another.
template <class T>
std::unique_ptr<RowMap<T>> make_rows(Keeper& keep, nb::tuple record, Index rows, Index columns, Index first_row) {
  const auto made = [&](auto kernel) -> std::unique_ptr<RowMap<T>> {
    return std::make_unique<Panels<T, decltype(kernel)>>(kernel, rows, first_row);
  };
  const std::string kind = kind_of(record);
  if (kind == "dense") {
    const bool turned = cast<bool>(record[2], "transposed");
    return with_dense<T>(keep, record[1], rows, columns, [&](auto* M) {
      using S = Entry<decltype(M)>;
      return turned ? made(DenseColumns<T, S>{M, rows, columns}) : made(DenseRows<T, S>{M, columns});
    });
  }
  if (kind == "csr") return with_csr<T>(keep, record, rows, columns, [&](auto M) { return made(CsrRows{M}); });
  if (kind == "identity") return made(IdentityRows<T>{left_of(record[2], rows, columns)});
  throw std::invalid_argument("rows of kind " + kind + " cannot be stacked");
}

// ("tiles", "sorted" or "runs", indptr, indices, values) or ("identity", rows, left).
template <class T>
std::unique_ptr<TwoWayRows<T>> make_two_way(Keeper& keep, const Phi<T>& phi, nb::tuple record, Index rows, Index columns,
                                            Index first_row) {
  using Result = std::unique_ptr<TwoWayRows<T>>;
  const std::string kind = kind_of(record);
  if (kind == "identity") {
    return std::make_unique<TwoWayIdentity<T>>(rows, left_of(record[2], rows, columns), first_row);
  }
  if (kind != "tiles" && kind != "sorted" && kind != "runs") {
    throw std::invalid_argument("rows of kind " + kind + " have one way only");
  }
  require(rows <= NUMBERED && columns <= NUMBERED, "M", "is too large for numbers of 32 bits");
  return with_csr_of<std::int32_t, T>(keep, record, rows, columns, [&](auto M) -> Result {
    using S = Entry<decltype(M.values)>;
    if (kind == "runs") return std::make_unique<TwoWayRuns<T, S>>(M, rows, columns, first_row);
    if (kind == "sorted") return std::make_unique<TwoWaySorted<T, S>>(phi, M, rows, columns, first_row);
    return std::make_unique<TwoWayTiles<T, S>>(phi, M, rows, columns, first_row);
  });
}

// The rows of a record, or of those that ("stacked", (rows, record), …) stands on one another.
template <class T, class Call>
auto made_of(const Phi<T>& phi, nb::tuple record, Index rows, Call call) {
  std::vector<decltype(call(record, rows, Index(0)))> parts;
  if (kind_of(record) != "stacked") {
    parts.push_back(call(record, rows, 0));
    return parts;
  }
  Index first_row = 0;
  for (std::size_t k = 1; k < record.size(); ++k) {
    const nb::tuple part = record_of(record[k], "a part of M", 2);
    const Index height = length_of(part[0], "the height of a part of M");
    require(height <= rows - first_row, "M", "has parts with more rows than it has");
    parts.push_back(call(cast<nb::tuple>(part[1], "a part of M"), height, first_row));
    first_row += height;
    require_cut(phi, first_row);
  }
  require(first_row == rows, "M", "has parts with fewer rows than it has");
  return parts;
}

template <class T>
std::unique_ptr<DualStep<T>> make_map(Keeper& keep, nb::tuple record, const Phi<T>& phi, Index columns) {
  using Result = std::unique_ptr<DualStep<T>>;
  const Index rows = phi.rows;
  const std::string kind = kind_of(record);
  if (kind == "strips") {  // ("strips", array, transposed)
    const bool turned = cast<bool>(record[2], "transposed");
    return with_dense<T>(keep, record[1], rows, columns, [&](auto* M) -> Result {
      using S = Entry<decltype(M)>;
      return std::make_unique<DenseStrips<T, S>>(phi, M, columns, turned);
    });
  }
  if (kind == "kronecker") {  // ("kronecker", A, B or None, rows of B, columns of B)
    require(gemm<T> != nullptr, "use_blas", "must be called before a Kronecker product");
    const Array A = keep.array(record[1]);
    require(A.ndim() == 2, "A", "must be a matrix");
    const Index p = static_cast<Index>(A.shape(0)), q = static_cast<Index>(A.shape(1));
    const Index r = length_of(record[3], "the rows of B"), s = length_of(record[4], "the columns of B");
    require(0 < r && std::max({p, q, r, s}) <= NUMBERED, "A or B", "is empty or too large");
    require(p * r == rows && q * s == columns, "kronecker", "has another shape than M");
    require(r == s || !record[2].is_none(), "B", "is missing, and not a square identity");
    const T* B = keep.vector_or_null<T>(record[2], r * s, "B");
    return std::make_unique<Kronecker<T>>(phi, data_of<T>(A), p, q, B, r, s);
  }
  if (kind == "block-diagonal") {  // ("block-diagonal", entries, at, row, column)
    const Array entries = keep.array(record[1]);
    const auto ends = [&](nb::handle object, const char* name, Index last) {
      const Array array = keep.array(object);
      const std::int64_t* data = data_of<std::int64_t>(array);
      require_rising(name, data, array.size(), last, false);
      return Ends(data, data + array.size());
    };
    Ends at = ends(record[2], "at", static_cast<Index>(entries.size())), row = ends(record[3], "row", rows),
         column = ends(record[4], "column", columns);
    bool fit = at.size() == row.size() && at.size() == column.size();
    for (std::size_t i = 1; fit && i < at.size(); ++i) {
      const Index height = row[i] - row[i - 1], width = column[i] - column[i - 1];
      fit = height <= LONGEST / std::max<Index>(1, width) && at[i] - at[i - 1] == height * width;
    }
    require(fit, "block-diagonal", "has blocks of other sizes than its entries");
    return with_entries<T>(entries, [&](auto* data) -> Result {
      using S = Entry<decltype(data)>;
      return std::make_unique<BlockDiagonal<T, S>>(phi, data, std::move(at), std::move(row), std::move(column));
    });
  }
  if (kind == "two-way") {  // ("two-way", record), the parts as above
    auto parts = made_of(phi, cast<nb::tuple>(record[1], "two-way"), rows, [&](nb::tuple part, Index height, Index first_row) {
      return make_two_way<T>(keep, phi, part, height, columns, first_row);
    });
    return std::make_unique<TwoWay<T>>(phi, columns, std::move(parts));
  }
  auto maps = made_of(phi, record, rows, [&](nb::tuple part, Index height, Index first_row) {
    return make_rows<T>(keep, part, height, columns, first_row);
  });
  return std::make_unique<ByRows<T>>(phi, columns, std::move(maps));
}

template <class T>
std::unique_ptr<DualStep<T>> make_dual_step(Keeper& keep, Functions& functions, nb::tuple M, nb::tuple table, Index rows, Index columns) {
  require(0 <= rows && rows <= LONGEST, "rows", "is not a number of entries");
  require(1 <= columns && columns <= LONGEST, "columns", "is not a number of entries, of which there must be some");
  const Phi<T> phi = make_phi<T>(keep, table, rows);
  auto calls = make_calls(phi, table.size() > 4 ? cast<nb::tuple>(table[4], "calls") : nb::tuple());
  return with_calls(make_map(keep, M, phi, columns), functions, std::move(calls));
}

template <class T>
SquareMatrix<T> make_hessian(Keeper& keep, nb::tuple record, Index size) {
  if (cast<std::string>(record_of(record, "H", 2)[0], "the kind of H") == "dense") {
    return with_dense<T>(keep, record[1], size, size, [size](auto* H) -> SquareMatrix<T> {
      return {static_cast<double>(size * size), [=](const T* x, const T* base, T* out, Range rows) {
                dots(H, size, size, x, base, out, rows.start, rows.stop);
              }};
    });
  }
  require(kind_of(record) == "csr", "H", "must be dense or csr");
  return with_csr<T>(keep, record, size, size, [size](auto H) -> SquareMatrix<T> {
    return {static_cast<double>(H.indptr[size]), [=](const T* x, const T* base, T* out, Range rows) {
              H.times(x, base, out, rows.start, rows.stop);
            }};
  });
}

// (code, parameter), the parameter one number or one per row; none is read if the loss is called.
template <class T>
Slope<T> make_slope(Keeper& keep, nb::tuple record, Index rows) {
  Slope<T> slope{loss_of(cast<std::uint8_t>(record[0], "loss"))};
  require(slope.loss != Loss::NONE, "f", "has a loss that is none");
  if (slope.loss == Loss::CALLED) return slope;
  const Array parameter = keep.array(record[1]);
  slope.one_parameter = parameter.size() == 1;
  if (!slope.one_parameter) require_size("the parameter of the loss", parameter.size(), rows);
  slope.parameter = data_of<T>(parameter);
  return slope;
}

// (size, loss or None, A record or None, rows of A, base or None, ridge, diagonal or None, H record or None, −c or None)
// for one function; a list of such for a separable one.
template <class T>
std::unique_ptr<Gradient<T>> make_gradient(Keeper& keep, Functions& functions, nb::handle object, Index columns) {
  if (nb::isinstance<nb::list>(object)) {
    std::vector<std::unique_ptr<Gradient<T>>> parts;
    Ends first{0};
    for (nb::handle part : nb::cast<nb::list>(object)) {
      const Index size = length_of(record_of(part, "f", 9)[0], "the size of f");
      require(size <= columns - first.back(), "f", "has more variables than M has columns");
      parts.push_back(make_gradient<T>(keep, functions, part, size));
      first.push_back(first.back() + size);
    }
    require(first.back() == columns, "f", "has fewer variables than M has columns");
    return std::make_unique<SeparableGradient<T>>(std::move(parts), std::move(first));
  }
  const nb::tuple record = record_of(object, "f", 9);
  const Index size = length_of(record[0], "the size of f");
  require(size == columns, "f", "has another number of variables than M has columns");
  Terms<T> terms;
  if (!record[1].is_none()) {
    const nb::tuple loss = record_of(record[1], "the loss of f", 2);
    if (record[2].is_none()) {
      terms.loss_of_x = make_slope<T>(keep, loss, size);
      require(terms.loss_of_x.loss != Loss::CALLED, "f", "has a loss that is called, but no A");
      terms.shift = keep.vector_or_null<T>(record[4], size, "d");
    } else {
      const auto A = cast<nb::tuple>(record[2], "A");
      const std::string kind = kind_of(A);
      // others cut x where they want to
      require(kind == "dense" || kind == "csr" || kind == "stacked" || kind == "strips" || kind == "identity", "A",
              "must be dense, csr, stacked, strips or an identity");
      Phi<T> slopes;
      slopes.rows = length_of(record[3], "the rows of A");
      slopes.slope = make_slope<T>(keep, loss, slopes.rows);
      std::vector<Range> calls;
      if (slopes.slope.loss == Loss::CALLED) calls.push_back({0, slopes.rows});
      terms.loss_of_Ax = with_calls(make_map(keep, A, slopes, size), functions, std::move(calls));
      terms.base = keep.vector<T>(record[4], slopes.rows, "d");
    }
  }
  terms.ridge = cast<T>(record[5], "ridge");
  terms.diagonal = keep.vector_or_null<T>(record[6], size, "diagonal");
  if (!record[7].is_none()) terms.matrix = make_hessian<T>(keep, cast<nb::tuple>(record[7], "H"), size);
  terms.minus_c = keep.vector_or_null<T>(record[8], size, "c");
  return std::make_unique<TermsGradient<T>>(std::move(terms), size);
}

inline Program make_program(nb::tuple parts) {
  const nb::tuple record = record_of(parts, "program", 4);
  Program program;
  program.dual = cast<std::vector<bool>>(record[0], "dual");
  using Record = std::tuple<int, int, int, std::vector<std::tuple<int, double, double>>, double>;
  for (const auto& [kind, out, second, terms, step] : cast<std::vector<Record>>(record[1], "instructions")) {
    require(Instruction::COMBINE <= kind && kind <= Instruction::PRIMAL_STEP, "the program", "has an unknown instruction");
    program.instructions.push_back({static_cast<Instruction::Kind>(kind), out, second, {}, step});
    for (const auto& [reg, factor, changing] : terms) {
      program.instructions.back().terms.push_back({reg, factor, changing});
    }
  }
  program.next = cast<std::vector<int>>(record[2], "next");
  program.ahead = cast<double>(record[3], "ahead");
  check(program);
  return program;
}

// A vector, a number, or nothing.
template <class T>
void take_entries(Keeper& keep, nb::handle object, Index size, const char* name, Entries<T>& entries) {
  if (object.is_none()) return;
  if (nb::isinstance<nb::float_>(object)) {
    entries.number = static_cast<T>(cast<double>(object, name));
  } else {
    entries.vector = keep.vector<T>(object, size, name);
  }
}

template <class T>
PrimalProx<T> make_prox(Keeper& keep, nb::tuple parts, Index columns) {
  const nb::tuple record = record_of(parts, "prox", 4);
  PrimalProx<T> prox;
  take_entries(keep, record[0], columns, "the curvature", prox.curvature);
  take_entries(keep, record[1], columns, "c", prox.c);
  take_entries(keep, record[2], columns, "lower", prox.lower);
  take_entries(keep, record[3], columns, "upper", prox.upper);
  return prox;
}

// Seconds from now until a step is given up.
inline std::chrono::steady_clock::time_point after(double seconds) {
  require(!std::isnan(seconds), "seconds", "must be a number");
  constexpr double LONGEST = 1e8;
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(std::min(std::max(seconds, 0.0), LONGEST)));
}

template <class T>
class PythonRunner {
 public:
  PythonRunner(nb::tuple program, nb::tuple M, nb::tuple phi, nb::object f, nb::tuple prox, Index rows, Index columns)
      : runner_{make_program(program), make_dual_step<T>(keep_, functions_, M, phi, rows, columns),
                make_gradient<T>(keep_, functions_, f, columns), make_prox<T>(keep_, prox, columns)} {}

  void use(nb::tuple program) {
    Program made = make_program(program);
    nb::gil_scoped_release released;  // a run that asks for Ctrl-C needs Python's lock to end
    std::lock_guard<std::mutex> alone(mutex_);
    runner_.use(std::move(made));
  }
  void set(int reg, nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> from) {
    require_size("the vector", from.size(), runner_.size(known(reg)));
    std::copy(from.data(), from.data() + from.size(), runner_.data(reg));
  }
  void get(int reg, nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu> to) {
    require_size("the vector", to.size(), runner_.size(known(reg)));
    std::copy(runner_.data(reg), runner_.data(reg) + to.size(), to.data());
  }
  // Let registers have the entries of others, one after the other.
  void copy(std::vector<std::pair<int, int>> from_and_to) {
    for (const auto& [from, to] : from_and_to) {
      require(runner_.size(known(from)) == runner_.size(known(to)), "the registers", "have other lengths");
    }
    runner_.copy(from_and_to);
  }
  Index run(Index steps, int threads, double seconds, nb::tuple functions) {
    return guarded(steps, threads, seconds, functions, [&](const Watch& watch) { return runner_.run(steps, threads, watch); });
  }
  // The same until an epoch is over. `rule` are the numbers of `EpochRule`, and `progress` r at the first and at the last
  // measurement, the least ratio so far and when the next one is; returns these, the moves, and why it ended.
  std::vector<double> run_epoch(Index steps, int threads, double seconds, nb::tuple functions, std::vector<double> rule,
                                std::vector<double> progress, typename Runner<T>::Places places) {
    require(rule.size() == 11 && progress.size() == 4, "rule and progress", "must have 11 and 4 numbers");
    const auto whole = [](double number, double most) {
      require(0 <= number && number <= most, "rule and progress", "have a number of steps that is none");
      return static_cast<Index>(number);
    };
    const EpochRule asked{whole(rule[0], 1e3), whole(rule[1], 1e3), rule[2], rule[3], rule[4], rule[5],
                          rule[6], rule[7], rule[8], rule[9], rule[10]};
    require(asked.together > 0 && asked.seldom > 0, "rule", "has steps that must be at least 1");
    for (int k = 0; k < 3; ++k) {
      for (const int reg : places[k]) {
        require(runner_.is_dual(known(reg)) == (k == 2), "places", "are registers of other lengths");
      }
    }
    EpochProgress made{progress[0], progress[1], progress[2], {}, whole(progress[3], 1e15), 0};
    guarded(steps, threads, seconds, functions,
            [&](const Watch& watch) { return runner_.run_epoch(steps, threads, watch, asked, places, made); });
    const Moves& m = made.moves;
    return {made.first, made.last, made.least, double(made.next), m.of_x, m.of_y, m.cross, m.moved_x, m.moved_y, double(made.end)};
  }
  Index taken() const { return taken_; }
  Index number() const { return runner_.number; }
  void set_number(Index number) {
    require(0 <= number && number <= Index{1'000'000'000'000'000}, "number", "must be at least 0, and at most 1e15");
    runner_.number = number;
  }
  double work() const { return runner_.work(); }

 private:
  template <class Call>
  Index guarded(Index steps, int threads, double seconds, nb::tuple functions, Call run) {
    require(steps >= 0, "steps", "must be at least 0");
    require(functions.size() == functions_.count, "functions", "must be one for each call");
    threads_of(threads);
    bool interrupted = false;
    const Watch watch{after(seconds), [&] {
                        nb::gil_scoped_acquire held;
                        return interrupted = PyErr_CheckSignals() != 0;
                      }};
    Index done = 0;
    {
      nb::gil_scoped_release released;
      std::lock_guard<std::mutex> alone(mutex_);  // the registers serve one call at a time
      functions_.given = functions;
      done = run(watch);
    }
    taken_ = done;  // only with Python's lock: another thread may be running this too
    if (interrupted) throw nb::python_error();
    if (runner_.thrown) std::rethrow_exception(std::exchange(runner_.thrown, nullptr));
    return done;
  }
  int known(int reg) const {
    require(0 <= reg && reg < runner_.registers(), "the register", "is none of the program's");
    return reg;
  }

  Keeper keep_;
  Functions functions_;
  Runner<T> runner_;
  std::mutex mutex_;
  Index taken_ = 0;  // steps of the last run: known after a Ctrl-C too
};

template <class T>
void bind(nb::module_& module, const char* runner) {
  nb::class_<PythonRunner<T>>(module, runner)
      .def(nb::init<nb::tuple, nb::tuple, nb::tuple, nb::object, nb::tuple, Index, Index>())
      .def("use", &PythonRunner<T>::use)
      .def("set", &PythonRunner<T>::set)
      .def("get", &PythonRunner<T>::get, nb::arg(), nb::arg().noconvert())  // a converted copy would be written
      .def("run", &PythonRunner<T>::run, nb::arg(), nb::arg(), nb::arg(), nb::arg() = nb::tuple())
      .def("copy", &PythonRunner<T>::copy)
      .def("run_epoch", &PythonRunner<T>::run_epoch)
      .def_prop_ro("taken", &PythonRunner<T>::taken)
      .def_prop_rw("number", &PythonRunner<T>::number, &PythonRunner<T>::set_number)
      .def_prop_ro("work", &PythonRunner<T>::work);
}

// Seconds per meeting of so many threads.
double meeting(int threads, Index times) {
  threads_of(threads);
  require(times > 0, "times", "must be at least 1");
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
    require_size("a vector", vector.size(), length);
    at.push_back(data_of<double>(vector));
  }
  return at;
}

// The sums of `OfRows`, in its order, from a table of φ and vectors as in `RowsAt`.
std::vector<double> rows_of_certificate(nb::tuple table, std::vector<Array> vectors) {
  Keeper keep;
  const auto rows = static_cast<Index>(vectors.at(0).size());
  const Phi<double> phi = make_phi<double>(keep, table, rows);
  require(!phi.first, "phi", "has groups of rows");
  for (Index i = 0; i < (phi.one_kind ? 1 : rows); ++i) require(phi.kind[i] <= SHRINK, "phi", "is no sum over its rows");
  const auto at = data_of_all(vectors, rows);
  nb::gil_scoped_release released;
  const auto s = certify_rows(phi, {at.at(0), at.at(1), at.at(2), at.at(3), at.at(4), at.at(5)});
  return {std::begin(s.of), std::end(s.of)};
}

// The sums of `OfColumns`, in its order, from vectors as in `ColumnsAt`.
std::vector<double> columns_of_certificate(std::vector<Array> vectors) {
  const auto columns = static_cast<Index>(vectors.at(0).size());
  const auto at = data_of_all(vectors, columns);
  nb::gil_scoped_release released;
  ColumnsAt all{at.at(0), at.at(1), at.at(2), at.at(3), at.at(4), at.at(5)};
  if (at.size() > 6) all.lower = at.at(6), all.upper = at.at(7), all.units = at.at(8);
  const auto s = certify_columns(all, columns);
  return {std::begin(s.of), std::end(s.of)};
}

// A matrix that is stored, as in `make_rows` but with indices of 32 bits.
struct Stored {
  Array values;
  bool transposed = false;                                 // of a dense one
  const std::int32_t *starts = nullptr, *places = nullptr;  // of a sparse one
};

inline Stored make_stored(Keeper& keep, nb::tuple record, Index rows, Index columns) {
  if (kind_of(record) == "dense") {
    const Stored M{keep.array(record[1]), cast<bool>(record[2], "transposed")};
    require_size("the matrix", M.values.size(), rows * columns);
    return M;
  }
  const Array indptr = keep.array(record[1]), indices = keep.array(record[2]);
  const Stored M{keep.array(record[3]), false, data_of<std::int32_t>(indptr), data_of<std::int32_t>(indices)};
  require_size("indptr", indptr.size(), rows + 1);
  require_size("indices", indices.size(), static_cast<Index>(M.values.size()));
  require_size("the matrix", M.values.size(), M.starts[rows]);
  return M;
}

using Results = std::vector<nb::ndarray<double, nb::c_contig, nb::device::cpu>>;

inline void require_sizes(const Results& found, std::initializer_list<Index> sizes) {
  for (std::size_t k = 0; k < sizes.size(); ++k) require_size("a result", found.at(k).size(), sizes.begin()[k]);
}

// `Products`, in its order, from a matrix, x and y.
void products_of_certificate(nb::tuple record, std::vector<Array> point, Results found) {
  Keeper keep;
  const double *x = data_of<double>(point.at(0)), *y = data_of<double>(point.at(1));
  const auto rows = static_cast<Index>(point[1].size()), columns = static_cast<Index>(point[0].size());
  require_sizes(found, {rows, rows, columns, columns});
  const Products out{found[0].data(), found[1].data(), found[2].data(), found[3].data()};
  const Stored M = make_stored(keep, record, rows, columns);
  with_entries<double>(M.values, [&](auto* entries) {
    nb::gil_scoped_release released;
    if (M.starts) {
      multiply(M.starts, M.places, entries, x, y, rows, columns, out);
    } else if (M.transposed) {
      multiply(entries, y, x, columns, rows, out.transposed());
    } else {
      multiply(entries, x, y, rows, columns, out);
    }
  });
}

// `UnitsOf::find` from a matrix and the data in its order, into x, y, rows and columns; the unit of the objective, or
// nothing if some numbers are so small that they may be rounding.
std::optional<double> units_of_data(nb::tuple record, std::vector<Array> data, Results found, double rounding,
                                    double spread, int hops) {
  Keeper keep;
  const auto rows = static_cast<Index>(data.at(0).size()), columns = static_cast<Index>(data.at(2).size());
  const Index lengths[] = {rows, rows, columns, columns, columns};
  std::vector<Numbers> numbers;
  for (std::size_t k = 0; k < 5; ++k) {
    const double* at = data_of_all({data.at(k)}, lengths[k])[0];
    numbers.emplace_back(at, at + lengths[k]);
  }
  require_sizes(found, {columns, rows, rows, columns});
  UnitsOf units{std::move(numbers[0]), std::move(numbers[1]), std::move(numbers[2]), std::move(numbers[3]),
                std::move(numbers[4]), {}, {}, {}};
  const Stored M = make_stored(keep, record, rows, columns);
  if (M.starts) {
    require_starts(M.starts, rows, M.values.size());
    require_within<std::int32_t>(M.places, M.starts[rows], static_cast<std::int32_t>(columns));
  }
  return with_entries<double>(M.values, [&](auto* entries) -> std::optional<double> {
    nb::gil_scoped_release released;
    if (units.is_wide(rounding, spread)) return std::nullopt;
    Roots roots{M.transposed ? columns : rows, M.transposed ? rows : columns, {}, M.starts, M.places};
    roots.take(entries, static_cast<Index>(M.values.size()));
    units.find(roots, M.transposed, rounding, hops);
    const Numbers* of[] = {&units.x, &units.y, &units.rows, &units.columns};
    for (std::size_t k = 0; k < 4; ++k) std::copy(of[k]->begin(), of[k]->end(), found[k].data());
    return units.objective;
  });
}

// Entries and flops of LDLᵀ for a symmetric pattern, and whether all of them were counted.
std::tuple<double, double, bool> symbolic_cost(Array indptr, Array indices, double fill_limit, double flops_limit) {
  require(indptr.size() > 0 && static_cast<Index>(indptr.size()) <= NUMBERED, "indptr", "is empty or too long");
  const auto size = static_cast<std::int32_t>(indptr.size()) - 1;
  const auto* starts = data_of<std::int64_t>(indptr);
  const auto* columns = data_of<std::int32_t>(indices);
  require_starts(starts, size, indices.size());
  require_within<std::int32_t>(columns, starts[size], size);
  nb::gil_scoped_release released;
  const SymbolicCost cost = MinimumDegree(size, starts, columns).run(fill_limit, flops_limit);
  return {cost.fill, cost.flops, cost.complete};
}

}  // namespace dapd

NB_MODULE(DAPD_MODULE, module) {
  module.attr("vector_bytes") = dapd::VECTOR_BYTES;
  dapd::bind<double>(module, "Runner64");
  dapd::bind<float>(module, "Runner32");
  dapd::bind_blocks(module);
  module.def("meeting", &dapd::meeting);
  module.def("symbolic_cost", &dapd::symbolic_cost);
  module.def("rows_of_certificate", &dapd::rows_of_certificate);
  module.def("columns_of_certificate", &dapd::columns_of_certificate);
  module.def("products_of_certificate", &dapd::products_of_certificate);
  module.def("units_of_data", &dapd::units_of_data);
  module.def("use_blas", [](nb::capsule dgemm, nb::capsule sgemm) {
    dapd::gemm<double> = reinterpret_cast<dapd::Gemm<double>>(dgemm.data());
    dapd::gemm<float> = reinterpret_cast<dapd::Gemm<float>>(sgemm.data());
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
