#!/usr/bin/env bash
# Runs the agent's hardware half on a real NVIDIA GPU and writes docs/gpu-report.md.
#
#   test/gpu/run.sh build      on a machine with Go and a C compiler: fills bin/gpu
#   test/gpu/run.sh [REPORT]   on the machine with the GPU, as root, with bin/gpu: nothing
#                              else of the repository, no Go and no network is needed
#
# The GPU must be idle; it is cut with MIG, shared by MPS in another compute mode, and
# programs are made to fail on it. All that is set back. It takes about five minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build() {
	mkdir -p bin/gpu
	# go-nvml's header marks old functions as deprecated; they are wrapped all the same.
	# Its functions are bound when they are first called: some compilers' default is earlier.
	local flags="-s -w -extldflags=-Wl,-z,lazy"
	export CGO_CFLAGS="-O2 -Wno-deprecated-declarations"
	CGO_ENABLED=1 go build -trimpath -ldflags="$flags" -o bin/gpu/probe ./test/gpu/probe
	CGO_ENABLED=1 go build -tags grpcnotrace -trimpath -ldflags="$flags" -o bin/gpu/gpu-agent ./cmd/gpu-agent
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o bin/gpu/mps ./test/gpu/mps
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o bin/gpu/agent ./test/gpu/agent
	cc -O2 -Wall -Wextra -o bin/gpu/load test/gpu/load/load.c -ldl
}

if [[ ${1:-} == build ]]; then
	build
	exit
fi
report=${1:-docs/gpu-report.md}
[[ -x bin/gpu/probe && -x bin/gpu/load && -x bin/gpu/mps && -x bin/gpu/agent && -x bin/gpu/gpu-agent ]] || build
sections=$(mktemp -d)
trap 'rm -rf "$sections"' EXIT

# Each writes its sections, whatever comes of it.
status=0
bin/gpu/probe -load bin/gpu/load -sections "$sections" || status=$?
bin/gpu/mps -load bin/gpu/load -sections "$sections" || status=$?
bin/gpu/agent -agent bin/gpu/gpu-agent -load bin/gpu/load -sections "$sections" || status=$?

{
	echo "# What the agent does on a real GPU"
	echo
	echo "Written by \`test/gpu/run.sh\` on $(date -u +%Y-%m-%d): $(nvidia-smi --query-gpu=name,driver_version,vbios_version,memory.total --format=csv,noheader | head -1)," \
		"kernel $(uname -r). Do not edit: run it again."
	echo "$(cat "$sections"/*.md | grep -c -e '- ok:' -e '| ok |' || true) checks held, $(cat "$sections"/*.md | grep -c -F '**failed**' || true) failed."
	echo
	cat "$sections"/*.md
} >"$report"
echo "run.sh: wrote $report"
exit "$status"
