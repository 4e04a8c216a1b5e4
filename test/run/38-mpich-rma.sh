# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# MPICH's programs for one-sided MPI, from Debian's source package: none that passes with Open MPI alone may fail with
# osc/sdma. Nothing of them is kept outside the build folder, and the system's package lists stay as they are.

mpich_folder=$build/mpich

# apt-get with lists of our own, of the system's archives' sources.
mpich_apt() {
    apt-get -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$mpich_folder/apt/sources" \
        -o "Dir::State::lists=$mpich_folder/apt/lists" -o "Dir::Cache=$mpich_folder/apt/cache" -o APT::Sandbox::User= \
        "$@"
}

mpich_source() {
    local file
    ! compgen -G "$mpich_folder/mpich-*/test/mpi/rma/testlist.in" >/dev/null || return 0
    command -v dpkg-source >/dev/null || skip "dpkg-dev is not installed"
    mkdir -p "$mpich_folder"/apt/{sources,lists/partial,cache/archives/partial}
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ -r "$file" ] && grep -q 'debian' "$file" || continue
        case $file in
        *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" >"$mpich_folder/apt/sources/${file##*/}" ;;
        *.list) sed -n 's/^deb /deb-src /p' "$file" >"$mpich_folder/apt/sources/${file##*/}" ;;
        esac
    done
    (cd "$mpich_folder" && mpich_apt update && mpich_apt source --download-only mpich) ||
        skip "Debian's source of mpich cannot be fetched"
    (cd "$mpich_folder" && tar xf mpich_*.orig.tar.?z --wildcards '*/test/mpi/*')
}

# Everything but their generator of datatypes, which names what Open MPI has dropped.
mpich_configure() {
    [ ! -e "$mpich_folder/build/util/libmtest_single.la" ] || return 0
    mkdir -p "$mpich_folder/build"
    (
        cd "$mpich_folder/build"
        ../mpich-*/test/mpi/configure CC=mpicc --with-mpi=/usr --disable-cxx --disable-fortran --disable-spawn >configure.log
        make -C util >util.log 2>&1
    )
}

# mpich_run ROW ARGUMENTS of mpirun...: does it pass? A row is: program ranks [timeLimit=SECONDS] [arg=ARGUMENT]...
mpich_run() {
    local row program ranks word seconds=240 arguments=()
    read -r -a row <<<"$1"
    shift
    program=${row[0]} ranks=${row[1]}
    for word in "${row[@]:2}"; do
        case $word in
        timeLimit=*) seconds=${word#*=} ;;
        arg=*) arguments+=("${word#*=}") ;;
        esac
    done
    timeout --kill-after=5 "$seconds" "$@" -np "$ranks" "./$program" "${arguments[@]}" >output 2>&1 </dev/null &&
        grep -q 'No Errors' output
}

# mpich_rma PROGRAMS: a pattern for their names. With the GPU runtime in each process, as in a program that uses GPUs.
mpich_rma() {
    local row ours plain passed=0 below=0 unbuilt=0 worse=()
    mpich_source
    mpich_configure
    ours=(sdma_simnode --gpus 2 -- mpirun --mca osc sdma -x "LD_PRELOAD=$(ldconfig -p | sed -n 's/.*=> \(.*libamdhip64\.so\.[0-9]*\)$/\1/p' | head -n 1)")
    plain=(mpirun --mca osc ^sdma --mca coll ^sdma)
    cd "$mpich_folder/build/rma"
    while read -r row; do
        make -o ../dtpools/src/libdtpools.la LDADD=../util/libmtest_single.la "${row%% *}" >make.log 2>&1 || {
            echo "not built: $row"
            unbuilt=$((unbuilt + 1))
            continue
        }
        if mpich_run "$row" "${ours[@]}"; then
            passed=$((passed + 1))
        elif ! mpich_run "$row" "${plain[@]}"; then
            echo "fails without us, too: $row"
            below=$((below + 1))
        # A machine with fewer cores than ranks deserves another attempt, no more.
        elif mpich_run "$row" "${ours[@]}"; then
            echo "passes at the second attempt: $row"
            passed=$((passed + 1))
        else
            head -n 40 output
            echo "fails only with us: $row"
            worse+=("$row")
        fi
    done < <(grep -v -e '^ *#' -e '^ *$' testlist | grep -E "^($1) ")
    echo "$passed pass, $below fail without us, too, $unbuilt not built, ${#worse[@]} fail only with us"
    [ $passed -gt 0 ] && [ ${#worse[@]} = 0 ]
}

mpich_few='test[2345]|put_base|put_bottom|transpose[37]|wintest|mixedsync|flush|reqops|win_flavors|win_dynamic_acc|aint'
mpich_few+='|compare_and_swap|fetch_and_op_int|get_accumulate_int|strided_putget_indexed|put_flush_get|rput_local_comp'
register mpich/rma-few 400 mpich_rma "$mpich_few"
[ -z "$soak" ] || register mpich/rma 7200 mpich_rma '[a-z0-9_]+'
