# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A rank ends in the middle of operations: the job ends soon, and leaves no process and no file.

# ends_with PATTERN SIMNODE-OPTIONS -- ARGUMENTS of the program...
ends_with() {
    local pattern=$1 options=() rest
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    # Private, so that what other jobs leave there is not counted.
    TMPDIR=$(mktemp -d)
    export TMPDIR
    expect_failure "$pattern" sdma_simnode --gpus 3 "${options[@]}" -- \
        mpirun --mca coll sdma -np 3 "$build/test/mpi/faults" operations=200 "$@"
    rest=$(pgrep -f "$build/test/mpi/faults" || true)
    [ -z "$rest" ] || {
        echo "still running: $rest"
        return 1
    }
    rest=$(find "$TMPDIR" -type f)
    rm -rf "$TMPDIR"
    [ -z "$rest" ] || {
        echo "left behind: $rest"
        return 1
    }
}

# Open MPI 5.0 breaks the line before the signal.
rank_is_killed() { ends_with 'noticed that process rank 1 ' --fault die,rank=1,at=40 --; }
rank_exits() { ends_with 'Exit code: *3' -- exit=3 rank=1; }

register ends/killed 60 rank_is_killed
register ends/exit 60 rank_exits
