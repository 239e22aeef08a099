#!/usr/bin/env bash
# Runs claims on a real NVIDIA GPU: gpu-agent with --dra beside a real kubelet, containerd and
# API server, and Tangram's scheduler. It prints what containers see of the GPU: whole, cut
# with MIG on demand, and shared.
#
#   hack/gpu-dra.sh build      on a machine with Go, a C compiler, runc, the CNI plugins and
#                              bin/ as `make build` leaves it: fills bin/gpu-dra/part-1, -2, ...
#   hack/gpu-dra.sh check      before they are brought there: whether the parts are of these sources
#   hack/gpu-dra.sh unpack     on the machine with the GPU, once for each part that was brought
#                              there: bin/gpu-dra/part-* into $GPU_DRA_DIR (/tmp/gpu-dra)
#   hack/gpu-dra.sh run [LOG]  there, as root, when all parts are unpacked
#
# There no Go, no network and nothing else of the repository is needed. A part is smaller than
# PART_MIB (50): where less can be brought in one go than all parts together (about 99 MiB),
# bring them one after the other. GPU_DRA_BACKEND=simulated tries the script without a GPU.
#
# The GPU must be idle with MIG off; it is left so. It takes about two minutes. The parts whole,
# MIG on demand and shares all run, whichever fails; one that fails says within a minute which pods
# hold what, what the node publishes, and how the logs end. Programs that were built of other
# sources than those beside this script are not run, unless GPU_DRA_STALE=1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=${GPU_DRA_DIR:-/tmp/gpu-dra}
out=bin/gpu-dra
cache=bin/.gpu-dra
part=$((${PART_MIB:-50} * 1024 * 1024))

# sources names what is packed: equal exactly when it would be built of the same files.
sources() {
	find api cmd config core internal test/node test/gpu/load hack/gpu-dra.sh go.mod go.sum -type f -print0 |
		LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-32
}

# fresh FILE: fails when FILE, which build wrote, is of other sources than those here, if any.
fresh() {
	local built now
	built=$(head -n 1 "$1" 2>/dev/null) || true
	built=${built:-unknown}
	if [[ ! -f go.mod ]]; then return; fi
	now=$(sources)
	if [[ ${built%% *} == "$now" ]]; then return; fi
	echo "gpu-dra.sh: built of other sources ($built) than those here ($now): build, and bring all parts again" >&2
	[[ ${GPU_DRA_STALE:-} == 1 ]]
}

check() {
	local file
	file=$(mktemp)
	xz -dc "$out"/part-*/sources.xz >"$file" || true
	fresh "$file" || { rm -f "$file"; exit 1; }
	rm -f "$file"
}

build() {
	local stage=$out/stage file known size=0 n=1
	rm -rf "$out"
	mkdir -p "$stage/cni" "$stage/lib" "$stage/tools"
	CGO_ENABLED=0 go build -ldflags="-s -w" -o "$stage/" ./test/node/inspect ./test/node/holder
	CGO_ENABLED=0 go test -c -ldflags="-s -w" -o "$stage/node.test" ./test/node
	hack/build.sh tangram
	for file in gpu-agent gpu-scheduler etcd kube-apiserver kubelet containerd containerd-shim-runc-v2 ctr; do
		ln "bin/$file" "$stage/$file" 2>/dev/null || cp "bin/$file" "$stage/$file"
	done
	cc -O2 -Wall -Wextra -o "$stage/tools/load" test/gpu/load/load.c -ldl
	cp "$(PATH=$PATH:/usr/sbin command -v runc)" "$stage/runc"
	# runc is dynamic; a C library every machine with a driver has, this one not every.
	cp -L "$(ldd "$stage/runc" | awk '/libseccomp/ {print $3}')" "$stage/lib/" || true
	for folder in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do
		if [[ -x $folder/ptp ]]; then
			cp "$folder"/{ptp,host-local,loopback} "$stage/cni/"
			break
		fi
	done
	[[ -x $stage/cni/ptp ]] || { echo "gpu-dra.sh: no CNI plugins found" >&2; exit 1; }
	echo "$(sources) of $(git describe --always --dirty 2>/dev/null || echo unknown), $(date -u +%FT%TZ)" >"$stage/sources"
	(cd "$stage" && find . -type f | LC_ALL=C sort) | while read -r file; do
		mkdir -p "$out/packed/$(dirname "$file")" "$cache"
		# Packing takes minutes, and most programs stay what they were.
		known=$cache/$(sha256sum "$stage/$file" | cut -c1-32).xz
		[[ -s $known ]] || { xz -6 -T0 -c "$stage/$file" >"$known.new" && mv "$known.new" "$known"; }
		cp "$known" "$out/packed/$file.xz"
	done
	rm -rf "$stage"
	# The largest first: each goes into the first part that has room.
	declare -A used
	while read -r size file; do
		for ((n = 1; ${used[$n]:-0} > 0 && ${used[$n]:-0} + size > part; n++)); do :; done
		used[$n]=$((${used[$n]:-0} + size))
		mkdir -p "$out/part-$n/$(dirname "$file")"
		mv "$out/packed/$file" "$out/part-$n/$file"
	done < <(cd "$out/packed" && find . -type f -printf '%s %p\n' | sort -rn)
	rm -rf "$out/packed"
	du -sb "$out"/part-* | awk '{printf "%s %.1f MiB\n", $2, $1 / 1048576}'
}

unpack() {
	local file at
	for file in $(cd "$out" && find part-* -type f -name '*.xz'); do
		at=$dir/$(cut -d/ -f2- <<<"${file%.xz}")
		mkdir -p "$(dirname "$at")"
		xz -dc "$out/$file" >"$at"
		chmod 755 "$at"
	done
	echo "gpu-dra.sh: $(find "$dir" -type f | wc -l) programs are in $dir"
}

run() {
	local log=${1:-/dev/null} file
	for file in node.test gpu-agent gpu-scheduler etcd kube-apiserver kubelet containerd containerd-shim-runc-v2 ctr inspect holder runc cni/ptp; do
		[[ -x $dir/$file ]] || { echo "gpu-dra.sh: $dir/$file is missing: unpack all parts" >&2; exit 1; }
	done
	fresh "$dir/sources" || exit 1
	# runc's library, for those that lack it. Kept from the GPU's programs by their own paths.
	export LD_LIBRARY_PATH=$dir/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export TANGRAM_BIN=$dir TANGRAM_GPU=${GPU_DRA_BACKEND:-nvml}
	cd "$dir"
	{
		echo "gpu-dra.sh: built of $(cat sources)"
		./node.test -test.run '^TestRealGPU$' -test.v -test.timeout 8m 2>&1
	} | tee "$log"
}

case ${1:-} in
build) build ;;
check) check ;;
unpack) unpack ;;
run) shift; run "$@" ;;
*)
	sed -n '2,/^set/p' "$0" | sed -e '$d' -e 's/^# \{0,1\}//' >&2
	exit 2
	;;
esac
