/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Brings the UCX transport into an MPI process. UCX before 1.22 knows only the modules it was built with, so somebody
 * has to load ours before ucp_init, and pml/ucx calls that when it is opened. The hook framework is opened before all
 * others, and registering is the first that it does with a component.
 */
#include "ompi_config.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

#include "ompi/constants.h"
#include "ompi/mca/hook/hook.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/util/output.h"

#include "common/sdma/sdma.h"

static bool enable = true;
static int verbose = 0;

static int register_component(void);

__attribute__((visibility("default"))) ompi_hook_base_component_t mca_hook_sdma_component = {
    .hookm_version =
        {
            OMPI_HOOK_BASE_VERSION_1_0_0,
            .mca_component_name = "sdma",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_register_component_params = register_component,
        },
    .hookm_data = {MCA_BASE_METADATA_PARAM_NONE},
};

static void register_param(const char *name, const char *help, mca_base_var_type_t type, void *value) {
    mca_base_component_var_register(&mca_hook_sdma_component.hookm_version, name, help, type, NULL, 0, 0,
                                    OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY, value);
}

/* The older protocols of UCX 1.13 choose by length only, so they would pack GPU memory by the CPU. */
#define UCX_ASKS_FOR_PROTOCOLS (SDMA_UCX_RELEASE < 118)

/* UCX has no way to forget a transport: the library stays loaded. */
static void load_transport(void) {
    if (NULL == dlopen(SDMA_TRANSPORT, RTLD_NOW | RTLD_LOCAL)) {
        if (verbose > 0) {
            opal_output(0, "hook:sdma: no UCX transport: %s", dlerror());
        }
        return;
    }
    if (UCX_ASKS_FOR_PROTOCOLS) {
        setenv("UCX_PROTO_ENABLE", "y", 0);
    }
    if (verbose > 0) {
        opal_output(0, "hook:sdma: %s is loaded", SDMA_TRANSPORT);
    }
}

static int register_component(void) {
    register_param("enable", "load the UCX transport sdma, for pml/ucx and osc/ucx", MCA_BASE_VAR_TYPE_BOOL, &enable);
    register_param("verbose", "messages: 0 none, 1 whether the transport was loaded", MCA_BASE_VAR_TYPE_INT, &verbose);
    if (enable && sdma_runtime_loaded()) { /* else there is nothing for it to move */
        load_transport();
    }
    return OMPI_SUCCESS;
}
