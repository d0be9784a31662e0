#!/bin/sh
# Checks and measures the joins on the GPU of this machine, and prints a short table of each part; the CSVs go to OUT.
# Usage: bench/joins.sh PATH_OF_bench_joins [OUT] [PART ...]
#   Parts, about how long they take on an H100, and what they do:
#     bus     20 s  from pinned host memory and back to it, beside what the bus allows
#     hash    15 s  the hash join that writes rows, and its sum, of 16 M rows
#     sweeps  50 s  selectivity, duplicates, the sides' ratio, skew, payload columns (bench/plot.py draws them)
#     fuzz    40 s  random joins of up to 10 M rows by every operator against the CPU
#     tune    20 s  other shapes of the hash join's kernels beside those in use
#     race    60 s  small joins under compute-sanitizer's racecheck
#   Without parts: bus hash sweeps fuzz. SWEEP_ROWS (16 M), SWEEP_SECONDS (60), FUZZ_ROWS (10 M) and FUZZ_SECONDS (40)
#   change their lengths.
set -u
bench=$1
out=${2:-.}
[ $# -gt 2 ] && { shift 2; parts=$*; } || parts="bus hash sweeps fuzz"
mkdir -p "$out"
export TENON_DEVICE="${TENON_DEVICE:-cuda}"
failed=0

# measure PART ARGUMENTS: keeps all that is printed, and shows the rows.
measure() {
    part=$1
    shift
    echo "== $part ($(date -u +%H:%M:%S))"
    if ! "$bench" "$@" >"$out/$part.txt" 2>&1; then
        failed=1
        echo "FAILED: $part"
        tail -5 "$out/$part.txt"
    fi
}

for part in $parts; do
    case $part in
    bus)
        measure bus --csv "$out/bus.csv" from_host ^hash.pairs.u32.16Mx16M.copied ^hash.pairs.u64.16Mx16M.copied \
            ^he.inlj.16Mx16M.copied ^he.smj.16Mx16M.copied ^he.hj_table.16Mx16M.copied
        grep -E 'of the time|^he\.|^hash\.|^ordered\.' "$out/bus.txt"
        ;;
    hash)
        measure hash --csv "$out/hash.csv" ^hash.pairs.u32.16M ^hash.pairs.u64.16M ^hash.sum.
        grep -E '^hash\.' "$out/hash.txt" | grep -v copied
        ;;
    sweeps)
        measure sweeps --csv "$out/sweeps.csv" --rows "${SWEEP_ROWS:-16777216}" --seconds "${SWEEP_SECONDS:-60}" ^sweep.
        awk '/^sweep\./ { printf "%-40s %9.4f ms %8.2f G tuples/s\n", $1, $3, $4 }' "$out/sweeps.txt"
        ;;
    fuzz)
        measure fuzz --fuzz "${FUZZ_SECONDS:-40}" --rows "${FUZZ_ROWS:-10000000}"
        tail -4 "$out/fuzz.txt"
        ;;
    tune)
        measure tune --csv "$out/tune.csv" ^tune.u32 ^tune.u64.128M
        grep '^tune\.' "$out/tune.txt"
        ;;
    race)
        echo "== race ($(date -u +%H:%M:%S))"
        sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
        timeout 120 "$sanitizer" --tool racecheck --error-exitcode 3 "$bench" --race >"$out/race.txt" 2>&1 || failed=1
        grep -cE '^[0-9]+ joins' "$out/race.txt"
        grep -E 'RACECHECK SUMMARY|ERROR|hazard' "$out/race.txt" | head -20
        ;;
    *)
        echo "unknown part $part" >&2
        failed=1
        ;;
    esac
done
exit $failed
