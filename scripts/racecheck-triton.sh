#!/bin/bash
# Looks for races among the threads of the Triton join's kernels: each of its small tests under
# compute-sanitizer's racecheck, on a GPU. Usage: scripts/racecheck-triton.sh [TEST BINARY of tenon-gpu]
set -u
cd "$(dirname "$0")/.."
binary=${1:-$(ls -t target/debug/deps/gpu-* | grep -v '\.d$' | head -1)}
failed=0
for test in cached_rows_in_slots cached_rows_in_an_array spilled_rows_and_sums_of_groups spilled_rows_and_lists \
    many_equal_keys_in_lists partitioners; do
    start=$SECONDS
    output=$(TENON_DEVICE=cuda timeout 60 compute-sanitizer --tool racecheck --error-exitcode 9 \
        "$binary" --exact "join_triton::race::$test" --test-threads=1 2>&1)
    status=$?
    echo "$test: exit status $status, $((SECONDS - start)) s, $(grep -E 'RACECHECK SUMMARY|ERROR SUMMARY' <<<"$output" | tail -1)"
    if [ $status -ne 0 ]; then
        grep -E '=========|panicked|TENON_TEST_SEED' <<<"$output" | head -30
        failed=1
    fi
done
exit $failed
