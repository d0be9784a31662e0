#!/bin/bash
# The Triton join's figures on a GPU: sizes and budgets, about the budget, ratios, widths, pairs, partitioners, prefix
# sums and the strategies that it is compared with. Prints a short table; the full ones go to OUT (default: .).
# Usage: bench/triton.sh [BINARY]; ROWS_MAX (512, millions of build rows), TUPLES (32, millions), REPEATS (3), SECONDS_MAX
# (90, for all of it).
set -u
cd "$(dirname "$0")/.."
binary=${1:-target/debug/bench_triton}
out=${OUT:-.}
mkdir -p "$out"
export TENON_DEVICE=${TENON_DEVICE:-cuda}
deadline=$((SECONDS + ${SECONDS_MAX:-90}))
failed=0

# run NAME MILLIONS FILTER...: rows of these names; what is late is left out.
run() {
    local name=$1 millions=$2 left=$((deadline - SECONDS))
    shift 2
    if [ $left -lt 2 ]; then echo "$name: no time left"; return; fi
    "$binary" --rows-max "$millions" --tuples "${TUPLES:-32}" --repeats "${REPEATS:-3}" --seconds "$left" ${SMALL:+--small} \
        --csv "$out/triton-$name.csv" --figures "$out/triton-$name-figures.csv" "$@" >"$out/triton-$name.txt" 2>&1 ||
        { echo "$name failed:"; tail -3 "$out/triton-$name.txt"; failed=1; }
}

rows_max=${ROWS_MAX:-512}
run budget "$rows_max" triton.size.128M triton.budget.128M.linear triton.budget.128M.perfect.1/8 triton.size.512M.linear \
    triton.budget.512M.linear triton.near.512M.linear.90% triton.near.512M.linear.100% triton.near.512M.linear.110% \
    triton.near.512M.perfect.90% triton.near.512M.perfect.110%
run shape 128 triton.shape.128M.fanout triton.shape.128M.back triton.pairs.128M triton.width baseline.
run ratio "$rows_max" triton.ratio
run partition 0 partition.hierarchical partition.shared partition.linear partition.standard prefix_sum.
for name in budget shape ratio partition; do
    [ -f "$out/triton-$name.csv" ] || continue
    awk -F, 'FNR > 1 { printf "%-44s %9s ms (%9s) %7s G/s  cached %-6s %s/%s/%s\n", $1, $3, $4, $5, $8, $10, $11, $12 }' \
        "$out/triton-$name.csv"
done
exit $failed
