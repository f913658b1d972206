// Arrays that Python hands over: NumPy's memory, read or written in place.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <vector>

namespace nb = nanobind;

namespace dapd {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

template <class E>
bool holds(const Array& array) {
  return array.dtype() == nb::dtype<E>();
}

template <class E>
const E* data_of(const Array& array) {
  if (!holds<E>(array)) throw std::invalid_argument("an array of another dtype was expected");
  return static_cast<const E*>(array.data());
}

// Keeps the arrays alive whose memory the core reads.
class Keeper {
 public:
  Array array(nb::handle object) {
    kept_.push_back(nb::borrow(object));
    return nb::cast<Array>(object, false);  // a converted copy would not live as long
  }
  template <class E>
  const E* vector(nb::handle object) {
    return object.is_none() ? nullptr : data_of<E>(array(object));
  }

 private:
  std::vector<nb::object> kept_;
};

}  // namespace dapd
