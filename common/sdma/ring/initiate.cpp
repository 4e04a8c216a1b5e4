// SPDX-License-Identifier: BSD-3-Clause
#include "initiate.hpp"

#include "../../../kernels/issue.h"

namespace sdma {

uint64_t initiate_on_host(struct sdma_work *work) {
    const Outcome outcome = issue(work, 0, 1);
    report(work, outcome);
    return outcome.status;
}

} // namespace sdma
