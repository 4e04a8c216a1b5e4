# SPDX-License-Identifier: BSD-3-Clause
include test/unit/ring.mk
include test/unit/proxy.mk
include test/unit/engine.mk
include test/unit/operations.mk
include test/unit/slots.mk
include test/unit/interface.mk
include test/unit/resident.mk
