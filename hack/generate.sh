#!/usr/bin/env bash
# Writes everything that is generated below a folder, which is the repository's
# root for `make generate` and a scratch one for `make verify`.
set -euo pipefail
to=$(realpath "${1:?usage: hack/generate.sh FOLDER}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p "$to/api/v1alpha1" "$to/config/crd/volcano"
bin/controller-gen object paths=./api/v1alpha1 output:object:dir="$to/api/v1alpha1"
bin/controller-gen crd paths=./api/v1alpha1 output:crd:dir="$to/config/crd"

# Volcano's kinds come from its own Go types. Descriptions are left out: with those
# of a pod template a definition is larger than kubectl can apply.
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
volcano=volcano.sh/apis/pkg/apis
bin/controller-gen crd:maxDescLen=0,generateEmbeddedObjectMeta=true \
	paths=$volcano/scheduling/v1beta1 paths=$volcano/batch/v1alpha1 paths=$volcano/bus/v1alpha1 \
	output:crd:dir="$raw"
go run ./hack/volcanocrd "$raw" "$to/config/crd/volcano"

# Dashboards, and the alerts as objects of prometheus-operator.
go run ./hack/monitoring . "$to"

mkdir -p "$to/docs/reference"
go run ./hack/docs . "$to/docs/reference"

hack/chart.sh "$to"
