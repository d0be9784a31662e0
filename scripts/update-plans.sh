#!/usr/bin/env bash
# Writes tests/plans/ anew from what EXPLAIN (COSTS OFF) prints now. Look at the difference before it is committed.
set -euo pipefail
cd "$(dirname "$0")/.."
TENON_PLANS_UPDATE=1 cargo test --workspace --test server -- plans::
git diff --stat -- tests/plans
