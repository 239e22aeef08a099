#!/usr/bin/env bash
# Copies into the chart, below a folder, what it has of config/ and monitoring/: helm
# packages only what is in the chart's own folder. Templates read the copies, so a rule
# or a definition is written once. A step of hack/generate.sh; test/chart compares.
set -euo pipefail
to=$(realpath "${1:?usage: hack/chart.sh FOLDER}")/charts/gpu-scheduler/files
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rm -rf "$to"
mkdir -p "$to/crd/volcano" "$to/rbac" "$to/tenants" "$to/monitoring/dashboards"
cp config/crd/*.yaml "$to/crd/"
cp config/crd/volcano/*.yaml "$to/crd/volcano/"
cp config/scheduler.yaml "$to/"
cp config/rbac.yaml "$to/rbac/scheduler.yaml"
cp config/deviceclasses.yaml "$to/"
for name in controller agent agent-dra extender; do
	cp "config/$name-rbac.yaml" "$to/rbac/$name.yaml"
done
cp config/autoscaling.yaml "$to/"
cp config/admission/kai.yaml "$to/"
cp config/tenants/*.yaml "$to/tenants/"
cp monitoring/operator/*.yaml "$to/monitoring/"
cp monitoring/dashboards/*.json "$to/monitoring/dashboards/"
