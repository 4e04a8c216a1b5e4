# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Our own code under the sanitizers, each in a build of its own. Address and undefined behaviour: rows of the simulated
# node; all of them, and the unit tests, with --soak. Thread: the unit tests in which ranks are threads; what is below us
# (ROCr, Open MPI) is not compiled for it and would only be guessed at.

sanitized() { printf '%s\n' "$build/sanitized-$1"; }

# sanitized_make KIND SANITIZERS TARGET... of make
# Soon compiled. Two warnings are let pass: where UBSan looks for null GCC 14 sees null formats, and the one fence, which
# TSan does not know, is for hardware's queues.
sanitized_make() {
    local tree
    tree=$(sanitized "$1")
    rm -f "$tree/made"
    mkdir -p "$tree"
    (cd "$tree" && "$top/configure" --prefix="$tree/install" --enable-werror --enable-sanitizer="$2" \
        CFLAGS='-O1 -g1 -Wno-error=format-truncation' CXXFLAGS='-O1 -g1 -Wno-error=tsan')
    make -C "$tree" -j"${JOBS:-$(nproc)}" "${@:3}"
    [ "$1" = thread ] || make -C "$tree" -j"${JOBS:-$(nproc)}" install # jobs use what is installed
    touch "$tree/made"
}

# Leaks are found by tracing the process, which some containers forbid.
leaks_can_be_found() {
    local program=$build/empty
    echo 'int main() { return 0; }' | g++ -x c++ -fsanitize=address -o "$program" - && "$program"
}

# sanitized_run KIND COMMAND...: with that build in the place of the ordinary one.
sanitized_run() {
    build=$(sanitized "$1")
    [ -e "$build/made" ] || {
        echo "sanitizers/$1-make did not succeed"
        return 1
    }
    prefix=$build/install
    [ ! -d "$prefix" ] || enter_install
    local leaks=1
    [ "$1" != address ] || leaks_can_be_found || leaks=0
    # HIP's threads have signal stacks of their own; only whole stacks show which library keeps something. Where a
    # library's thread-local memory lies is guessed from what is before it: LSan crashed by that in 6 of 6 runs of a row.
    export ASAN_OPTIONS=detect_leaks=$leaks:use_sigaltstack=0:fast_unwind_on_malloc=0:exitcode=99
    ASAN_OPTIONS+=:intercept_tls_get_addr=0
    export LSAN_OPTIONS=suppressions=$top/test/support/leaks.supp:print_suppressions=0
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    export TSAN_OPTIONS=halt_on_error=1:exitcode=99
    cd "$build"
    "${@:2}"
}

units() {
    local program
    for program in "$@"; do
        echo "== $program"
        "test/unit/$program" || return
    done
}

# The programs of rows of test/mpi/tests.list.
programs_of() {
    local row
    for row in "$@"; do mpi_row "$row" | sed 's/.*|\([a-z]*\)[^|]*$/test\/mpi\/\1/'; done | sort -u
}

# Not resident_test: it runs a kernel's lanes by swapcontext, which TSan cannot follow.
thread_units='collectives_test memory_test onesided_test'
address_rows='collectives-small-chunks ahead realloc faults-stall onesided-chaos-2 resident-2'
address_units=''
if [ -n "$soak" ]; then
    thread_units+=' line_memory_test line_fault_test proxy_test'
    # But for the row that counts its own mappings, which ASan adds to, and the one in which only Open MPI's code runs.
    address_rows=$(sed -n '/^lifetime-communicators/d; /^rma-without-ours/d; s/^\([a-z][^|]*\)|.*/\1/p' \
        "$top/test/mpi/tests.list")
    address_units='packet_test plan_test base_test agreement_test collectives_test memory_test fault_test hostile_test
        onesided_test line_memory_test line_fault_test proxy_test engine_test slots_test resident_test'
fi

# shellcheck disable=SC2086 # lists of words
{
    register sanitizers/address-make 1800 sanitized_make address address,undefined \
        $(programs_of $address_rows) ${address_units:+$(printf 'test/unit/%s ' $address_units)}
    [ -z "$soak" ] || register sanitizers/address-units 600 sanitized_run address units $address_units
    for row in $address_rows; do
        register "sanitizers/address-$row" 900 sanitized_run address mpi_test "$row"
    done
    register sanitizers/thread-make 1200 sanitized_make thread thread $(printf 'test/unit/%s ' $thread_units)
    register sanitizers/thread-units 900 sanitized_run thread units $thread_units
}
unset row
