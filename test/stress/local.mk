# SPDX-License-Identifier: BSD-3-Clause
# Short here; longer by hand: ring_stress CLAIMS PRODUCERS RING_BYTES SEED.
check_PROGRAMS += test/stress/ring_stress test/stress/ring_stress_tsan
TESTS += test/stress/ring_stress test/stress/ring_stress_tsan

test_stress_ring_stress_SOURCES = test/stress/ring_stress.cpp
test_stress_ring_stress_LDADD = -lpthread

# Always with the thread sanitizer, whatever the rest is built with.
test_stress_ring_stress_tsan_SOURCES = test/stress/ring_stress.cpp
test_stress_ring_stress_tsan_CXXFLAGS = $(SDMA_CFLAGS) -fsanitize=thread -g -O1
test_stress_ring_stress_tsan_LDFLAGS = -fsanitize=thread
test_stress_ring_stress_tsan_LDADD = -lpthread
