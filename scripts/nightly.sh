#!/usr/bin/env bash
# The random trials and those of many connections for ten minutes each, against the release build or the program that
# TENON_TEST_BINARY names. An ordinary test run has the same trials for some seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${TENON_TEST_BINARY:-}" ]; then
    cargo build --release --quiet
    export TENON_TEST_BINARY=$PWD/target/release/tenon
fi
export TENON_BOUNDS_SECONDS=${TENON_BOUNDS_SECONDS:-600}
export TENON_BOUNDS_CONNECTIONS=${TENON_BOUNDS_CONNECTIONS:-1000}
ulimit -n 8192
export TENON_TRIAL_SECONDS=$((TENON_BOUNDS_SECONDS + 300))
for name in bounds::sqlsmith wire::fuzz bounds::many_connections bounds::stalled_readers bounds::open_cursors bounds::memory; do
    echo "== $name ($(date -u +%H:%M:%S))"
    cargo test --workspace --test server -- --exact "$name" --nocapture
done
python=.deps/venv/bin/python
for what in fuzz self; do
    echo "== random statements: $what ($(date -u +%H:%M:%S))"
    $python tests/oracle/run.py $what --seconds "$TENON_BOUNDS_SECONDS" || true # Differences are told, and no news.
done
