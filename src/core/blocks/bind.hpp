#pragma once

#include <nanobind/nanobind.h>

namespace dapd {

// Adds the loops of the block-coordinate methods to the module.
void bind_blocks(nanobind::module_& module);

}  // namespace dapd
