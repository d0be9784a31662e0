#!/bin/sh
# Puts NVRTC (the run-time compiler for kernels) into .deps/nvrtc, so that the tests compile every kernel for real
# GPU architectures. Needs pip; no GPU and no CUDA toolkit. Does nothing if it is there already.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=${1:-$root/.deps/nvrtc}
version='13.0.*'
if ls "$target"/libnvrtc.so.13 >/dev/null 2>&1; then
    echo "NVRTC is in $target"
    exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m pip download --quiet --no-deps --only-binary=:all: -d "$scratch" "nvidia-cuda-nvrtc==$version"
mkdir -p "$target"
python3 - "$scratch" "$target" <<'PY'
import glob, os, shutil, sys, zipfile
wheel = glob.glob(os.path.join(sys.argv[1], "*.whl"))[0]
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        base = os.path.basename(name)
        # The alternative build for old hosts (libnvrtc.alt) is not needed.
        if base.startswith("libnvrtc") and ".so" in base and ".alt." not in base:
            partial = os.path.join(sys.argv[2], "." + base)
            with archive.open(name) as source, open(partial, "wb") as target:
                shutil.copyfileobj(source, target)
            os.rename(partial, os.path.join(sys.argv[2], base))
PY
ls "$target"/libnvrtc.so.13 >/dev/null
echo "NVRTC installed in $target"
