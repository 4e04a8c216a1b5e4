# SPDX-License-Identifier: BSD-3-Clause
# The instructions of the kernels, with every clang of this machine.
dist_check_SCRIPTS += test/isa/check_isa.py
TESTS += test/isa/check_isa.py
EXTRA_DIST += test/isa/probe.cpp
