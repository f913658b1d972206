// The records and arrays that Python hands over: NumPy's memory, read or written in place. They are checked once, when they
// are bound, so that no loop of a solve has to. What does not fit is a ValueError, and another type a TypeError.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "dual_step.hpp"

namespace nb = nanobind;

namespace dapd {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

template <class E>
bool holds(const Array& array) {
  return array.dtype() == nb::dtype<E>();
}

template <class E>
const E* data_of(const Array& array) {
  if (!holds<E>(array)) throw nb::type_error("an array of another dtype was expected");
  return static_cast<const E*>(array.data());
}

inline void require_size(const char* name, std::size_t found, Index expected) {
  if (static_cast<Index>(found) != expected) {
    throw std::invalid_argument(std::string(name) + " has another length: " + std::to_string(found) +
                                " entries, expected " + std::to_string(expected));
  }
}

// Keeps the arrays alive whose memory the core reads.
class Keeper {
 public:
  Array array(nb::handle object) {
    kept_.push_back(nb::borrow(object));
    Array found;
    if (!nb::try_cast<Array>(object, found, false)) {  // a converted copy would not live as long
      throw nb::type_error("an array in C order and in native byte order was expected");
    }
    return found;
  }
  // A vector of so many entries.
  template <class E>
  const E* vector(nb::handle object, Index size, const char* name) {
    const Array found = array(object);
    require_size(name, found.size(), size);
    return data_of<E>(found);
  }
  template <class E>
  const E* vector_or_null(nb::handle object, Index size, const char* name) {
    return object.is_none() ? nullptr : vector<E>(object, size, name);
  }

 private:
  std::vector<nb::object> kept_;
};

inline constexpr Index LONGEST = Index(1) << 48;  // entries of a vector: their bytes can be counted
inline constexpr Index NUMBERED = INT32_MAX;       // rows or columns whose numbers have 32 bits
inline constexpr int MOST_THREADS = 1 << 12;

inline void require(bool holds, const char* name, const char* what) {
  if (!holds) throw std::invalid_argument(std::string(name) + " " + what);
}

template <class E>
E cast(nb::handle object, const char* name) {
  E value{};
  if (!nb::try_cast<E>(object, value)) throw nb::type_error((std::string(name) + " is of another type").c_str());
  return value;
}

// A number of entries.
inline Index length_of(nb::handle object, const char* name) {
  const Index length = cast<Index>(object, name);
  require(0 <= length && length <= LONGEST, name, "is not a number of entries");
  return length;
}

inline int threads_of(int threads) {
  require(1 <= threads && threads <= MOST_THREADS, "threads", "must be between 1 and 4,096");
  return threads;
}

inline Loss loss_of(std::uint8_t code) {
  require(code < LOSSES, "f", "has an unknown loss");
  return static_cast<Loss>(code);
}

inline nb::tuple record_of(nb::handle object, const char* name, std::size_t parts) {
  const auto record = cast<nb::tuple>(object, name);
  if (record.size() < parts) {
    throw std::invalid_argument(std::string(name) + " has " + std::to_string(record.size()) + " parts, expected " +
                                std::to_string(parts));
  }
  return record;
}

// Where rows begin in so many entries.
template <class I>
void require_starts(const I* starts, Index rows, std::size_t entries) {
  bool rising = starts[0] == 0;
  for (Index i = 0; i < rows; ++i) rising &= starts[i] <= starts[i + 1];
  require(rising, "indptr", "must begin with 0 and never fall");
  require(static_cast<std::uint64_t>(starts[rows]) <= entries, "indptr", "ends after the last of the entries");
}

template <class I>
void require_within(const I* indices, Index count, Index columns) {
  using Unsigned = std::make_unsigned_t<I>;
  Unsigned greatest = 0;  // a negative index is a very large one
  for (Index k = 0; k < count; ++k) greatest = std::max(greatest, static_cast<Unsigned>(indices[k]));
  require(count == 0 || greatest < static_cast<std::uint64_t>(columns), "indices", "must be those of columns");
}

// Sparse rows whose entries lie within these columns, as SciPy's check_format(full_check=True) asks.
template <class I>
void require_csr(const Array& indptr, Index rows, const Array& indices, std::size_t values, Index columns) {
  require_size("indptr", indptr.size(), rows + 1);
  const I* starts = data_of<I>(indptr);
  require_starts(starts, rows, std::min(indices.size(), values));
  require_within(data_of<I>(indices), static_cast<Index>(starts[rows]), columns);
}

// Numbers that begin with 0, end with `last` and rise, or at least never fall.
inline void require_rising(const char* name, const std::int64_t* ends, std::size_t size, Index last, bool strictly) {
  bool rising = size > 0 && ends[0] == 0 && ends[size - 1] == last;
  for (std::size_t k = 1; k < size; ++k) rising = rising && (strictly ? ends[k - 1] < ends[k] : ends[k - 1] <= ends[k]);
  require(rising, name, strictly ? "must rise from 0 to what they divide" : "must go from 0 to what they divide");
}

// No group of φ may begin in one part of a stacked M and end in the next.
template <class T>
void require_cut(const Phi<T>& phi, Index row) {
  require(phi.row_of(phi.unit_at(row)) == row, "phi", "has a group with rows in two parts of M");
}

}  // namespace dapd
