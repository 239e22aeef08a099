#!/usr/bin/env bash
# Builds operators that people run beside Tangram, for the tests with real operators and
# for `tangram up --operators`. Called by `hack/build.sh operators [NAME...]`; without
# names it builds all.
#
# Of each operator bin/operators has
#   NAME             the program
#   NAME.crds.yaml   its CRDs, Namespaces and webhook configurations
#   NAME.samples/    its own sample manifests
#
# Each is built inside a copy of its module, so that the module's own go.mod decides which
# libraries it has. It is built when missing, or when its row, the way it is built or the Go
# version changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false GOWORK=off

# One line per operator: name, module@version, package, where its CRDs are (folders of CRDs,
# or kustomizations as k:FOLDER), folders with samples. Those that share libraries stand
# together.
operators() {
	cat <<-END
		kuberay|github.com/ray-project/kuberay/ray-operator@v1.6.0|.|config/crd/bases|config/samples
		jobset|sigs.k8s.io/jobset@v0.12.0|.|k:config/default|config/samples keps/104-StartupPolicy keps/672-serial-job-execution
		lws|sigs.k8s.io/lws@v0.9.0|./cmd|k:config/default|config/samples docs/examples
		kueue|sigs.k8s.io/kueue@v0.16.1|./cmd/kueue|k:config/default|
		karpenter|sigs.k8s.io/karpenter@v1.11.0|./kwok|pkg/apis/crds kwok/apis/crds|kwok/examples
		training-operator|github.com/kubeflow/training-operator@v1.9.3|./cmd/training-operator.v1|k:manifests/overlays/standalone|examples
		trainer|github.com/kubeflow/trainer/v2@v2.2.0|./cmd/trainer-controller-manager|k:manifests/overlays/manager|manifests/base/runtimes examples
	END
}

# definitions FOLDER...: what the API server must know before the operator starts. RBAC,
# Deployments and Services are left out: the operator runs as a child process.
definitions() {
	local folder
	for folder in "$@"; do
		case $folder in
		k:*) "$kubectl" kustomize "${folder#k:}" 2>/dev/null || "$kubectl" kustomize "${folder#k:}" >/dev/null ;; # the second says why
		*) for f in "$folder"/*.yaml; do printf -- '---\n' && cat "$f" && echo; done ;;
		esac
		printf -- '---\n'
	done | awk '
		/^---[ \t]*$/ { flush(); next }
		/^kind: (CustomResourceDefinition|Namespace|MutatingWebhookConfiguration|ValidatingWebhookConfiguration)[ \t]*$/ { wanted = 1 }
		{ text = text $0 "\n" }
		function flush() { if (wanted) printf "---\n%s", text; text = ""; wanted = 0 }
		END { flush() }'
}

# adapt NAME: what of a module's files cannot be used without a network.
adapt() {
	case $1 in
	# Its overlay fetches a release of JobSet, and says that the line may go where JobSet is
	# installed.
	trainer) sed -i '/third-party\/jobset/d' manifests/overlays/manager/kustomization.yaml ;;
	esac
}

# make_one NAME OUTPUT: all of one operator into an empty folder.
make_one() {
	local out=$2 module package from samples dir folder
	IFS='|' read -r _ module package from samples < <(row "$1")
	dir=$(cd / && go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	cp -r "$dir" "$out/src"
	chmod -R u+w "$out/src"
	cd "$out/src"
	adapt "$1"
	mkdir "$out/samples"
	for folder in $samples; do
		cp -r "$folder" "$out/samples/"
	done
	# Programs among them would be taken for packages of this repository.
	find "$out/samples" -type f ! -name '*.yaml' ! -name '*.json' ! -name '*.md' -delete
	definitions $from >"$out/crds.yaml" # a list
	grep -q '^kind: CustomResourceDefinition' "$out/crds.yaml" || {
		echo "no CRD in $from of $module" >&2
		exit 1
	}
	go build -ldflags "-s -w" -o "$out/program" "$package"
}

# row NAME
row() { operators | grep "^$1|" || {
	echo "no operator $1; there are: $(operators | cut -d'|' -f1 | xargs)" >&2
	return 2
}; }

kubectl=$PWD/bin/kubectl
if [[ ${1:-} == --into ]]; then # one, as a process of its own, so that its first error ends it
	make_one "$3" "$2"
	exit
fi

if [[ $# -eq 0 ]]; then
	set -- $(operators | cut -d'|' -f1)
fi
[[ -x $kubectl ]] || hack/build.sh controlplane
mkdir -p bin/operators/.stamp
go_version=$(go env GOVERSION)
failed=()
for name in "$@"; do
	row=$(row "$name")
	want=$({ echo "$go_version $row" && declare -f definitions adapt make_one; } | git hash-object --stdin)
	if [[ -x bin/operators/$name && $(cat "bin/operators/.stamp/$name" 2>/dev/null) == "$want" ]]; then
		continue
	fi
	echo "building operator $name (the first time takes minutes)..."
	start=$SECONDS
	tmp=$(mktemp -d)
	if hack/operators.sh --into "$tmp" "$name"; then
		rm -rf "bin/operators/$name.samples"
		mv "$tmp/samples" "bin/operators/$name.samples"
		mv "$tmp/crds.yaml" "bin/operators/$name.crds.yaml"
		mv "$tmp/program" "bin/operators/$name"
		echo "$want" >"bin/operators/.stamp/$name"
		echo "built    operator $name in $((SECONDS - start)) s"
	else
		failed+=("$name")
		echo "FAILED   operator $name: see above" >&2
	fi
	rm -rf "$tmp"
done
if [[ ${#failed[@]} -gt 0 ]]; then
	echo "not built: ${failed[*]}" >&2
	exit 1
fi
