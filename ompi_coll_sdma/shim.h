/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The only place that knows how Open MPI 4.1, 5.0 and (prepared, not yet supported by configure) 6.0 differ.
 *
 *                        4.1 / 5.0                                6.0
 *   counts               int                                      size_t
 *   functions get into   the base copies them after enable        the module installs them in enable
 *   a communicator                                                and puts the former ones back in disable
 *   lower modules        we hold a reference                      kept alive by the order of teardown
 *   osc interface        3.0.0 in both                            4.0.0
 *   values of info keys  4.1: copied; 5.0: a string object
 *   GPU-aware Open MPI   4.1: CUDA builds only; 5.0: the accelerator framework has a component
 */
#ifndef SDMA_OMPI_SHIM_H
#define SDMA_OMPI_SHIM_H

#include "ompi_config.h"

#include "opal/class/opal_object.h"

#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/group/group.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/op/op.h"
#include "ompi/request/request.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi/win/win.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/info.h"
#include "opal/util/output.h"

#if defined(MCA_COLL_BASE_VERSION_3_0_0)

#define SDMA_COLL_VERSION MCA_COLL_BASE_VERSION_3_0_0
typedef size_t sdma_count_t;
#define SDMA_KEEP(saved, api) ((void)0)
#define SDMA_DROP(saved, api) ((void)0)
#define SDMA_INSTALL(comm, module, api) MCA_COLL_INSTALL_API(comm, api, (module)->coll_##api, module, "sdma")
#define SDMA_UNINSTALL(comm, saved, api)                                                                               \
    MCA_COLL_INSTALL_API(comm, api, (saved)->coll_##api, (saved)->coll_##api##_module, "sdma")

#else

#if defined(MCA_COLL_BASE_VERSION_2_4_0)
#define SDMA_COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
#elif defined(MCA_COLL_BASE_VERSION_2_0_0)
#define SDMA_COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
#else
#error "this Open MPI has a coll interface that is not known here"
#endif
typedef int sdma_count_t;
#define SDMA_KEEP(saved, api) OBJ_RETAIN((saved)->coll_##api##_module)
#define SDMA_DROP(saved, api)                                                                                          \
    do {                                                                                                               \
        if (NULL != (saved)->coll_##api##_module) {                                                                    \
            OBJ_RELEASE((saved)->coll_##api##_module);                                                                 \
        }                                                                                                              \
    } while (0)
#define SDMA_INSTALL(comm, module, api) ((void)(comm), (void)(module))
#define SDMA_UNINSTALL(comm, saved, api) ((void)(comm), (void)(saved))

#endif

/* Whether Open MPI itself can be trusted with device pointers. */
#if OMPI_MAJOR_VERSION >= 5
#include "opal/mca/accelerator/base/base.h"
static inline bool sdma_ompi_gpu_aware(void) {
    return 0 != strcmp(opal_accelerator_base_selected_component.base_version.mca_component_name, "null");
}
#else
#include "opal/runtime/opal_params.h"
static inline bool sdma_ompi_gpu_aware(void) { return opal_cuda_support; }
#endif

/* The value of an info key, cut to the room; false: there is none. */
static inline bool sdma_info_get(struct opal_info_t *info, const char *key, char *value, size_t room) {
    int flag = 0;
#if OMPI_MAJOR_VERSION >= 5
    opal_cstring_t *text = NULL;
    if (OPAL_SUCCESS != opal_info_get(info, key, &text, &flag) || !flag) {
        return false;
    }
    strncpy(value, text->string, room - 1);
    OBJ_RELEASE(text);
#else
    if (OPAL_SUCCESS != opal_info_get(info, key, (int)room - 1, value, &flag) || !flag) {
        return false;
    }
#endif
    value[room - 1] = '\0';
    return true;
}

#endif
