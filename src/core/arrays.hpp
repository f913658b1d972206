// Arrays that Python hands over: NumPy's memory, read or written in place.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "vec.hpp"

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

}  // namespace dapd
