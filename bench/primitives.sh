#!/bin/sh
# Measures every primitive on the GPU of this machine and CUB beside them, and prints both with their ratio.
# Usage: bench/primitives.sh PATH_OF_bench_primitives [FILTER]. Needs nvcc for CUB's part; without it only ours.
set -eu
bench=$1
filter=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
TENON_DEVICE=cuda "$bench" $filter | tee "$scratch/tenon"
command -v nvcc >/dev/null || exit 0
test -x "${CUB_PEER:-}" || { CUB_PEER=$scratch/cub_peer; nvcc -O3 -std=c++17 -arch=native -o "$CUB_PEER" "$here/cub_peer.cu"; }
"$CUB_PEER" $filter >"$scratch/cub"
head -1 "$scratch/cub"
echo "row                                    items  tenon ms    CUB ms  ratio"
awk 'NR == FNR { if (NF == 3) cub[$1] = $3; next }
     $1 in cub { printf "%-34s %10d %9.4f %9.4f %6.2f\n", $1, $2, $3, cub[$1], $3 / cub[$1] }' "$scratch/cub" "$scratch/tenon"
