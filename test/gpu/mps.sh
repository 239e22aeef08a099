#!/usr/bin/env bash
# Shows on a real GPU that MPS shares are enforced: throughput of a 70 % and a 30 % share
# at once, alone and without MPS; a refused allocation; recovery from a killed daemon; the
# guard. Run it as root; it needs no network. It changes the GPU's compute mode and sets
# it back.
#
#	test/gpu/mps.sh [FOLDER FOR mps.json]
#
# The programs are taken from bin/ where they are (a machine without a Go toolchain:
# build them elsewhere with the two commands below and bring them along), else built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

out=${1:-${OUT:-.}}
mps=${MPS:-bin/gpu-mps}
load=${LOAD:-bin/gpu-load}
[[ -x $mps ]] || CGO_ENABLED=0 go build -o "$mps" ./test/gpu/mps
[[ -x $load ]] || cc -O2 -o "$load" test/gpu/load/load.c -ldl

exec "$mps" -load "$load" -seconds "${SECONDS_EACH:-5}" -out "$out/mps.json"
