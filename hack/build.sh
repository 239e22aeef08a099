#!/usr/bin/env bash
# Builds programs from Go modules into bin/.
#
#   hack/build.sh controlplane   what the local cluster runs on, and kubectl
#   hack/build.sh node           kubelet and containerd, for the tests of the agent
#   hack/build.sh linters        what `make lint` needs
#   hack/build.sh golangci       golangci-lint
#   hack/build.sh tools          what `make generate` needs
#   hack/build.sh monitoring     prometheus and promtool
#   hack/build.sh helm           helm, for the tests of the chart and for releases
#   hack/build.sh operators [NAME...]
#                                operators that people run beside Tangram, see hack/operators.sh
#   hack/build.sh browser        chromium, for the tests of the web page
#   hack/build.sh tangram        our own programs
#   hack/build.sh release PROGRAM OUTPUT
#                                one of our own, the same bytes wherever it is built
#
# All but our own are built when missing or when their stamp changed: the hash of
# their module's go.mod, go.sum and sources, of the flags and of the Go version.
# Time stamps do not count, so switching branches rebuilds nothing. Our own are
# left to go build, which knows what changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0

# version MODULE PACKAGE: the version a module's go.mod requires.
version() { sed -n "s|.*$2 \(v[0-9.]*\).*|\1|p" "$1/go.mod" | head -n 1; }

# kube_flags MODULE SUFFIX: without these a program built from Kubernetes says it
# is v0.0.0-master, and clients that compare versions misbehave.
kube_flags() {
	local v minor pair
	v=$(version "$1" k8s.io/kubernetes)
	minor=${v#v1.}
	for pair in "gitVersion=$v$2" gitMajor=1 "gitMinor=${minor%%.*}" gitTreeState=clean; do
		printf -- '-X k8s.io/component-base/version.%s ' "$pair"
	done
}

# prometheus_version: Prometheus 3.15.0 is version v0.315.0 of its module.
prometheus_version() { version hack/prometheus github.com/prometheus/prometheus | sed -E 's/^v0\.([0-9]+)([0-9]{2})\./\1.\2./; s/\.0([0-9])/.\1/'; }

# build MODULE PACKAGE FLAGS OUTPUT
build() {
	local out=$4
	[[ $out == /* ]] || out=$PWD/$out
	go build -C "$1" -buildvcs=false ${trimpath:+"$trimpath"} -tags "${tags:-}" -ldflags "-s -w $3" -o "$out" "$2"
}

# ours PROGRAM OUTPUT: one of our own. TANGRAM_VERSION is the version where git does not
# know it: in a container build, or for a release.
ours() {
	local version flags cc
	version=${TANGRAM_VERSION:-$(git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo unknown)}
	flags="-X github.com/tangram-dev/tangram/internal/version.version=$version"
	case $1 in
	gpu-scheduler) build . ./cmd/gpu-scheduler "$(kube_flags . "+tangram.$version") $flags" "$2" ;;
	gpu-agent)
		# The agent calls NVIDIA's library, which needs cgo; without a C compiler it is built
		# with its simulated back end alone, and says so when it is asked for nvml.
		# Without gRPC's traces nothing looks up methods by name, and the linker leaves out what
		# is not called: a third of the program, which would all be in the node's memory.
		cc=$(go env CC | cut -d' ' -f1)
		if command -v "$cc" >/dev/null; then
			# Some compilers bind all symbols at the start by default; the driver's are found
			# when its library is loaded, if there is one.
			CGO_ENABLED=1 CGO_CFLAGS="-O2 -Wno-deprecated-declarations" tags=grpcnotrace \
				build . ./cmd/gpu-agent "$flags -extldflags=-Wl,-z,lazy" "$2"
		else
			tags=grpcnotrace build . ./cmd/gpu-agent "$flags" "$2"
		fi
		;;
	*) build . "./cmd/$1" "$flags" "$2" ;;
	esac
}

# install_packages CONSEQUENCE PACKAGE...: with apt-get, as root; else it says what follows.
install_packages() {
	local consequence=$1 log=bin/.stamp/apt-get.log
	shift
	if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
		echo "not installed: $* (needs root and apt-get); $consequence"
		return
	fi
	echo "installing $* with apt-get..."
	mkdir -p bin/.stamp
	if ! DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >"$log" 2>&1 &&
		! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >>"$log" 2>&1; then
		tail -n 5 "$log"
		echo "not installed: $* (see $log); $consequence"
	fi
}

programs_of_ours="gpu-scheduler gpu-controller gpu-extender gpu-agent tangram"

group=${1:-}
case $group in
tangram)
	echo "building ${programs_of_ours// /, } (if changed)..."
	for name in $programs_of_ours; do
		ours "$name" "bin/$name"
	done
	# kubectl runs kubectl-tangram as `kubectl tangram`, and asks the other for completions.
	ln -sf tangram bin/kubectl-tangram
	ln -sf tangram bin/kubectl_complete-tangram
	exit
	;;
release)
	# Without the paths of this machine, so that the same sources give the same bytes
	# anywhere. GOOS, GOARCH and CC say for which machine.
	[[ $# -eq 3 && " $programs_of_ours " == *" $2 "* ]] || {
		echo "usage: hack/build.sh release ${programs_of_ours// /|} OUTPUT" >&2
		exit 2
	}
	trimpath=-trimpath ours "$2" "$3"
	exit
	;;
node)
	if [[ $(go env GOOS) != linux ]]; then
		echo "kubelet and containerd are not built: they need Linux; the tests that need them are skipped"
		exit
	fi
	;;
controlplane | linters | tools | helm) ;;
browser)
	# No Go module has it. Fonts: a machine without any shows boxes on screenshots.
	for name in chromium chromium-browser google-chrome; do
		if [[ -n ${TANGRAM_CHROMIUM:-} ]] || command -v "$name" >/dev/null; then
			exit
		fi
	done
	install_packages "the tests of the web page are skipped" chromium fonts-dejavu-core
	exit
	;;
golangci)
	# By version, without a module of its own here: that would be 1,000 lines of go.sum.
	want="golangci-lint v2.14.0 $(go env GOVERSION)"
	if [[ ! -x bin/golangci-lint || $(cat bin/.stamp/golangci-lint 2>/dev/null) != "$want" ]]; then
		echo "building golangci-lint..."
		mkdir -p bin/.stamp
		GOBIN=$PWD/bin GOFLAGS=-buildvcs=false go install -ldflags "-s -w" github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.14.0
		echo "$want" >bin/.stamp/golangci-lint
	fi
	exit
	;;
operators)
	shift
	exec hack/operators.sh "$@"
	;;
monitoring)
	# Of the ways to find targets only Kubernetes' is needed: the others are the SDKs of all
	# clouds. Without builtinassets the pages of the user interface are left out, which npm
	# would have to build; queries and alerts are served without them.
	tags="remove_all_sd enable_kubernetes_sd"
	;;
*)
	echo "usage: hack/build.sh controlplane | node | linters | golangci | tools | monitoring | helm | operators | browser | tangram | release" >&2
	exit 2
	;;
esac

# One line per program: group, name, module, package, linker flags. The largest
# comes first, since it compiles most of what the others share.
programs() {
	local kube kubelet kwok containerd prometheus helm
	kube=$(kube_flags hack/controlplane "")
	kubelet=$(kube_flags hack/kubelet "")
	containerd="-X github.com/containerd/containerd/v2/version.Version=$(version hack/containerd github.com/containerd/containerd/v2)"
	kwok=$(version hack/kwok sigs.k8s.io/kwok)
	prometheus="-X github.com/prometheus/common/version.Version=$(prometheus_version)"
	# Without a cluster to ask, helm takes the version of its client library for Kubernetes'.
	helm=$(version hack/helm k8s.io/client-go)
	helm="-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=$(cut -d. -f2 <<<"$helm")"
	helm+=" -X helm.sh/helm/v3/internal/version.version=$(version hack/helm helm.sh/helm/v3)"
	cat <<-END
		controlplane|kube-apiserver|hack/controlplane|k8s.io/kubernetes/cmd/kube-apiserver|$kube
		controlplane|kube-controller-manager|hack/controlplane|k8s.io/kubernetes/cmd/kube-controller-manager|$kube
		controlplane|kube-scheduler|hack/controlplane|k8s.io/kubernetes/cmd/kube-scheduler|$kube
		controlplane|kubectl|hack/controlplane|k8s.io/kubernetes/cmd/kubectl|$kube
		controlplane|etcd|hack/controlplane|./etcd|
		controlplane|kwok|hack/kwok|sigs.k8s.io/kwok/cmd/kwok|-X sigs.k8s.io/kwok/pkg/consts.Version=$kwok
		node|kubelet|hack/kubelet|k8s.io/kubernetes/cmd/kubelet|$kubelet
		node|containerd|hack/containerd|github.com/containerd/containerd/v2/cmd/containerd|$containerd
		node|containerd-shim-runc-v2|hack/containerd|github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2|$containerd
		node|ctr|hack/containerd|github.com/containerd/containerd/v2/cmd/ctr|$containerd
		monitoring|prometheus|hack/prometheus|github.com/prometheus/prometheus/cmd/prometheus|$prometheus
		monitoring|promtool|hack/prometheus|github.com/prometheus/prometheus/cmd/promtool|$prometheus
		linters|staticcheck|hack/tools|honnef.co/go/tools/cmd/staticcheck|
		tools|controller-gen|hack/tools|sigs.k8s.io/controller-tools/cmd/controller-gen|
		helm|helm|hack/helm|helm.sh/helm/v3/cmd/helm|$helm
	END
}

go_version=$(go env GOVERSION)

# stamp MODULE PACKAGE FLAGS: what the program depends on, as one hash.
stamp() {
	{
		echo "$go_version $2 $3${tags:+ $tags}"
		find "$1" -type f \( -name '*.go' -o -name go.mod -o -name go.sum \) | LC_ALL=C sort | xargs cat
	} | git hash-object --stdin
}

missing=()
while IFS='|' read -r in name module package flags; do
	[[ $in == "$group" ]] || continue
	want=$(stamp "$module" "$package" "$flags")
	if [[ ! -x bin/$name || $(cat "bin/.stamp/$name" 2>/dev/null) != "$want" ]]; then
		missing+=("$name|$module|$package|$flags|$want")
	fi
done < <(programs)

mkdir -p bin/.stamp
n=0
for line in ${missing[@]+"${missing[@]}"}; do
	IFS='|' read -r name module package flags want <<<"$line"
	n=$((n + 1))
	hint=
	[[ $n -gt 1 ]] || hint=", the first time takes some minutes"
	echo "building $name ($n of ${#missing[@]}$hint)..."
	start=$SECONDS
	# Built aside and moved, so that a running program is replaced, not written to,
	# and an interrupted build leaves the old one.
	new=bin/.stamp/$name.$$
	trap 'rm -f "$new"' EXIT
	build "$module" "$package" "$flags" "$new"
	mv "$new" "bin/$name"
	echo "$want" >"bin/.stamp/$name"
	echo "built    $name in $((SECONDS - start)) s"
done

# What no Go module has: runc (with seccomp, which needs a C library) and the plugins
# of the container network.
if [[ $group == node ]]; then
	packages=()
	command -v runc >/dev/null || [[ -x /usr/sbin/runc ]] || packages+=(runc)
	[[ -x /usr/lib/cni/ptp || -x /opt/cni/bin/ptp ]] || packages+=(containernetworking-plugins)
	if [[ ${#packages[@]} -eq 0 ]]; then
		exit
	fi
	install_packages "the tests on a real node are skipped" "${packages[@]}"
fi
