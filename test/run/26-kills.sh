# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Jobs that end badly at any moment. Each runs with a /dev/shm and a TMPDIR of its own, which must be empty after it.

# clean_end CODES COMMAND...: mpirun ends with one of CODES, soon, and nothing is left.
clean_end() {
    local wanted=$1 folder
    shift
    unshare --mount true 2>/dev/null || skip "unshare is not allowed here"
    folder=$(mktemp -d)
    # shellcheck disable=SC2016
    TMPDIR=$folder unshare --mount bash -c '
        mount -t tmpfs tmpfs /dev/shm || exit 1
        wanted=$1; shift
        timeout 60 "$@"; status=$?
        [[ " $wanted " = *" $status "* ]] || { echo "status $status, not $wanted: $*"; exit 1; }
        # mpirun returns before its helpers have cleaned up: they are given some time.
        for ((i = 0; i < 100; i++)); do
            rest=$(find /dev/shm "$TMPDIR" -type f -o -type s)
            [ -n "$rest" ] || exit 0
            sleep 0.1
        done
        echo "left behind: $rest"
        exit 1' - "$wanted" "$@" || return
    rm -rf "$folder"
}

ends_program() { sdma_simnode --gpus 3 -- mpirun --mca coll sdma -np 3 "$build/test/depth/ends" "$@"; }
export -f ends_program
export build

abort_ends_all() { clean_end 7 bash -c 'ends_program mode=abort'; }
no_finalize() { clean_end 1 bash -c 'ends_program mode=no-finalize'; }
no_finalize_code() { clean_end 5 bash -c 'ends_program mode=no-finalize code=5'; }

# gone PID...: none of them runs. mpirun returns before the last ones have ended: they get ten seconds.
gone() {
    local pid tries
    for pid in "$@"; do
        for ((tries = 0; tries < 100; tries++)); do
            [ -d "/proc/$pid" ] || continue 2
            sleep 0.1
        done
        echo "still running: $pid"
        return 1
    done
}

# One job, of which a rank is killed MILLISECONDS after its operations began. mpirun returns what it hears of first: the
# signal (128 + 9), or that the others, which see the rank gone, have aborted (MPI_ERR_OTHER is 16).
killed_at() {
    local list processes
    list=$(mktemp)
    # shellcheck disable=SC2016
    clean_end '137 16' bash -c '
        ends_program mode=kill > >(
            read -r _ processes # "running" and the ranks
            echo "$processes" >"$3"
            ranks=($processes)
            sleep "$(printf "%d.%03d" $(($1 / 1000)) $(($1 % 1000)))"
            kill -9 "${ranks[$2 % ${#ranks[@]}]}"
        )' - "$1" "$2" "$list" || return
    read -r -a processes <"$list"
    rm "$list"
    [ ${#processes[@]} = 3 ] && gone "${processes[@]}"
}

kills() {
    local i
    RANDOM=$2
    for ((i = 0; i < $1; i++)); do
        killed_at $((RANDOM % 700)) $RANDOM || return
    done
}

register ends/abort 60 abort_ends_all
register ends/no-finalize 60 no_finalize
register ends/no-finalize-code 60 no_finalize_code
register ends/kills 240 kills 5 1
if [ -n "$soak" ]; then
    register ends/kills-soak 14400 kills 1000 2
fi
