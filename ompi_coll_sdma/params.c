/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The parameters and counters that the component has itself, and those of libmpisdma.
 */
#include "ompi_coll_sdma/coll_sdma.h"

#include <stdatomic.h>

static _Atomic unsigned long long passed;

void coll_sdma_count_passed(void) { atomic_fetch_add_explicit(&passed, 1, memory_order_relaxed); }

static const glue_param_t own_params[] = {
    {"priority", MCA_BASE_VAR_TYPE_INT, false, NULL,
     "priority among coll components; above those that copy through the host (78), below hcoll (90)",
     &sdma_glue.priority},
    {"fallback", MCA_BASE_VAR_TYPE_STRING, false, NULL,
     "components opened in addition where the list given by --mca coll lacks basic, libnbc or self: auto (all), none, "
     "or a list",
     &sdma_glue.fallback},
    {"verbose", MCA_BASE_VAR_TYPE_INT, true, NULL,
     "messages: 0 errors only, 1 decisions by communicator, more: details", &sdma_glue.verbose},
    {"stage", MCA_BASE_VAR_TYPE_INT, true, glue_stage_values,
     "copy device buffers of declined operations through host memory: auto (where Open MPI is not GPU-aware), always, "
     "never (the components below must be able to access them)",
     &sdma_glue.stage},
};

int coll_sdma_register_params(void) {
    sdma_glue = (glue_t){
        .component = &mca_coll_sdma_component.collm_version, .other = "osc", .priority = 85, .fallback = "auto"};
    int status = glue_register_params(own_params, sizeof(own_params) / sizeof(own_params[0]));
    if (OMPI_SUCCESS == status) {
        status = glue_register_library();
    }
    if (OMPI_SUCCESS == status) {
        status = glue_register_counter("passed", "operations given to the component below because the team is not live",
                                       &passed);
    }
    return status;
}
