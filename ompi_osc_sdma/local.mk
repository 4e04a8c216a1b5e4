# SPDX-License-Identifier: BSD-3-Clause
# The one-sided Open MPI component.

ompicomp_LTLIBRARIES += mca_osc_sdma.la
mca_osc_sdma_la_SOURCES = $(sdma_glue_sources) \
	ompi_osc_sdma/accumulate.c \
	ompi_osc_sdma/component.c \
	ompi_osc_sdma/lower.c \
	ompi_osc_sdma/move.c \
	ompi_osc_sdma/osc_sdma.h \
	ompi_osc_sdma/peer.c \
	ompi_osc_sdma/request.c \
	ompi_osc_sdma/rma.c \
	ompi_osc_sdma/sync.c \
	ompi_osc_sdma/window.c
mca_osc_sdma_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
mca_osc_sdma_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared $(SDMA_COMPLETE) \
	-export-symbols-regex '^mca_osc_sdma_component$$'
mca_osc_sdma_la_LIBADD = libmpisdma.la $(OMPI_LIBS)
