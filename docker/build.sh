#!/usr/bin/env bash
# Builds the release binary on a Debian machine and puts it at the path given: the Dockerfile's first stage.
# Usage: docker/build.sh OUTPUT    (as root it installs the compilers it lacks; Rust must be there)
set -euo pipefail
cd "$(dirname "$0")/.."
output=${1:?usage: docker/build.sh OUTPUT}
if ! command -v cc >/dev/null || ! command -v c++ >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends gcc g++ libc6-dev
fi
cargo build --profile dist --locked --package tenon --bin tenon
install -D -m 755 "${CARGO_TARGET_DIR:-target}/dist/tenon" "$output"
# Names of functions, which are a quarter of it: a panic tells its file and line without them.
strip "$output"
