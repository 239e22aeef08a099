#!/usr/bin/env bash
# Checks that what is generated or derived is what is committed. Writes nothing
# into the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf 'verify: %s\n' "$*"; }
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

step generated files
hack/generate.sh "$fresh"
diff -u api/v1alpha1/zz_generated.deepcopy.go "$fresh/api/v1alpha1/zz_generated.deepcopy.go" &&
	diff -ru config/crd "$fresh/config/crd" &&
	diff -u docs/reference/crds.md "$fresh/docs/reference/crds.md" &&
	diff -u docs/reference/labels.md "$fresh/docs/reference/labels.md" &&
	diff -u docs/reference/metrics.md "$fresh/docs/reference/metrics.md" &&
	diff -u docs/reference/query.md "$fresh/docs/reference/query.md" &&
	diff -u docs/reference/reasons.md "$fresh/docs/reference/reasons.md" &&
	diff -ru charts/gpu-scheduler/files "$fresh/charts/gpu-scheduler/files" || {
	echo "generated files are out of date: run make generate" >&2
	exit 1
}

# The second net under the dependency rule (the first is internal/archtest):
# what the compiler sees of core's dependencies. coretest is for tests.
step core depends on the standard library only
foreign=$(go list ./core/... | grep -v '/coretest$' |
	xargs go list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' |
	grep -v '^github.com/tangram-dev/tangram/core/' || true)
if [[ -n $foreign ]]; then
	echo "core depends on:" >&2
	echo "$foreign" >&2
	exit 1
fi

step go mod tidy
for mod in . hack/tools hack/controlplane hack/kwok hack/kubelet hack/containerd hack/prometheus hack/helm hack/site; do
	go -C "$mod" mod tidy -diff || {
		echo "$mod/go.mod is not tidy: run go mod tidy there" >&2
		exit 1
	}
done

step go mod verify
go mod verify
