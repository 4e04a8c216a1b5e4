# SPDX-License-Identifier: BSD-3-Clause
# The Open MPI component that loads the UCX transport, and the parameters with which Open MPI takes UCX for GPU
# memory inside a node.

ompicomp_LTLIBRARIES += mca_hook_sdma.la
mca_hook_sdma_la_SOURCES = ompi_hook_sdma/component.c
mca_hook_sdma_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS) -DSDMA_UCX_RELEASE=$(ucx_release) \
	-DSDMA_TRANSPORT='"$(libdir)/libuct_sdma.so.0"'
mca_hook_sdma_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,defs \
	-export-symbols-regex '^mca_hook_sdma_component$$'
mca_hook_sdma_la_LIBADD = libmpisdma.la $(OMPI_LIBS) -ldl

dist_pkgdata_DATA = ompi_hook_sdma/mca-params-ucx.conf
