// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "context.hpp"

namespace sdma::op {

// What this process sees and would use; see sdma_describe(). Makes one queue per GPU for a moment,
// starts no runtime.
std::string describe(const Platform &platform, bool json);

} // namespace sdma::op
