# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What "make install" leaves, used from an empty environment, and what "make dist" packs.

# The three lines that a user types.
install_works_from_empty_environment() {
    local run=(env -i PATH=/usr/bin:/bin HOME="$HOME" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe bash -euc)
    expect coll_sdma_enable "${run[@]}" ". '$env_script'; ompi_info --param coll sdma --level 9"
    expect osc_sdma_enable "${run[@]}" ". '$env_script'; ompi_info --param osc sdma --level 9"
    expect '^64 .*Pass$' "${run[@]}" \
        ". '$env_script'; mpirun --mca coll sdma -np 2 '$prefix/bin/sdma_bench' alltoall -m 64:64 -c"
}

# Only what sdma.h and onesided.h mark; each component only itself.
install_exports_little() {
    local library component framework
    library=$(nm -D --defined-only "$prefix/lib/libmpisdma.so.0" | awk '$2 != "A" { print $3 }' | grep -v '^sdma_' || true)
    echo "library, unexpected: $library"
    for framework in coll osc; do
        component=$(nm -D --defined-only "$(find "$prefix" -name "mca_${framework}_sdma.so")" | awk '{ print $3 }')
        echo "component: $component"
        [ "$component" = "mca_${framework}_sdma_component" ] || return 1
    done
    [ -z "$library" ]
}

# No GPU runtime is a dependency of anything we install.
install_links_no_runtime() {
    local file
    for file in "$prefix"/lib/libmpisdma.so "$prefix"/lib/mpi-sdma/ompi/mca_{coll,osc}_sdma.so "$prefix"/bin/sdma_{bench,info}; do
        if readelf -d "$file" | grep NEEDED | grep -E 'hip|hsa|cuda'; then
            echo "$file"
            return 1
        fi
    done
}

# The documents are where their links expect them.
install_documents_are_linked() {
    python3 -B - "$prefix/share/doc/mpi-sdma" "$top/test/run" <<'END'
import sys
from pathlib import Path
sys.path.append(sys.argv[2])
from documents import check_links
top = Path(sys.argv[1])
problems = [*check_links(top)]
print(*problems, sep="\n")
sys.exit(1 if problems or not (top / "README.md").exists() else 0)
END
}

# What a checkout has is in the release, but for what only a checkout needs.
dist_is_complete() {
    local missing
    git -c safe.directory='*' -C "$top" rev-parse --git-dir >/dev/null 2>&1 || skip "not a checkout"
    make -s dist
    tar -tf mpi-sdma-*.tar.xz | sed 's,^[^/]*/,,' | sort >"$logs/dist-files"
    missing=$(git -c safe.directory='*' -C "$top" ls-files | grep -v '^\.' | sort | comm -23 - "$logs/dist-files")
    rm mpi-sdma-*.tar.xz
    echo "not in the release: $missing"
    [ -z "$missing" ]
}

distcheck() {
    make -C "$build" distcheck
}

register install/works-from-empty-environment 60 install_works_from_empty_environment
register install/exports-little 20 install_exports_little
register install/links-no-runtime 20 install_links_no_runtime
register install/documents-are-linked 20 install_documents_are_linked
register install/dist-is-complete 120 dist_is_complete
if [ -n "$soak" ]; then
    register install/distcheck 1800 distcheck
fi
