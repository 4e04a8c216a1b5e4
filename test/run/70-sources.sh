# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The tree itself: format, licences, and documents that must agree with the code.

source_files() {
    find "$top"/{common,kernels,ompi_coll_sdma,ompi_hook_sdma,ompi_osc_sdma,ucx_tl_sdma,tools,test} -name '*.[ch]' -o -name '*.cpp' -o -name '*.hpp' -o -name '*.hip'
}

# LLVM changes its style between releases; the tree follows 14, Debian 12's.
format() {
    local formatter
    formatter=$(command -v clang-format-14) || skip "clang-format-14 is not installed"
    source_files | xargs "$formatter" --dry-run --Werror
}

licence_lines() {
    local unmarked
    unmarked=$(source_files | xargs grep -L 'SPDX-License-Identifier: BSD-3-Clause' || true)
    echo "without a licence line: $unmarked"
    [ -z "$unmarked" ]
}

documents() {
    printf '%s\n' "${names[@]}" >"$logs/test-names"
    ompi_info --param coll sdma --level 9 --parsable >"$logs/parameters"
    ompi_info --param osc sdma --level 9 --parsable >>"$logs/parameters"
    python3 "$top/test/run/documents.py" "$top" "$logs/test-names" "$logs/parameters"
}

register sources/format 60 format
register sources/licence-lines 20 licence_lines
register sources/documents 20 documents
