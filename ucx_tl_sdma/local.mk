# SPDX-License-Identifier: BSD-3-Clause
# The UCX transport. The name is the one that UCX looks for from 1.22 on.

lib_LTLIBRARIES += libuct_sdma.la
libuct_sdma_la_SOURCES = \
	ucx_tl_sdma/abi.h \
	ucx_tl_sdma/component.c \
	ucx_tl_sdma/ep.c \
	ucx_tl_sdma/host.c \
	ucx_tl_sdma/iface.c \
	ucx_tl_sdma/layer.c \
	ucx_tl_sdma/md.c \
	ucx_tl_sdma/params.def \
	ucx_tl_sdma/release.c \
	ucx_tl_sdma/release.h \
	ucx_tl_sdma/rma.c \
	ucx_tl_sdma/tl.h
libuct_sdma_la_CPPFLAGS = $(AM_CPPFLAGS) $(UCX_CPPFLAGS) -D_GNU_SOURCE
libuct_sdma_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libuct_sdma_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 $(SDMA_COMPLETE) -Wl,-z,nodelete
libuct_sdma_la_LIBADD = libmpisdma.la $(UCX_LIBS)

# For programs other than MPI's.
bin_SCRIPTS += ucx_tl_sdma/sdma_ucx

if UCX_MODULE
install-exec-hook:
	$(MKDIR_P) "$(DESTDIR)$(ucxmoduledir)"
	cd "$(DESTDIR)$(ucxmoduledir)" && ln -sf "$(libdir)/libuct_sdma.so.0" libuct_sdma.so.0
uninstall-hook:
	rm -f "$(DESTDIR)$(ucxmoduledir)/libuct_sdma.so.0"
endif
