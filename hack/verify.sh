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
stale=
while read -r file; do
	diff -u "$file" "$fresh/$file" || stale=1
done < <(cd "$fresh" && find . -type f)
for folder in config/crd charts/gpu-scheduler/files; do # what is not generated any more
	diff -rq "$folder" "$fresh/$folder" || stale=1
done
if [[ -n $stale ]]; then
	echo "generated files are out of date: run make generate" >&2
	exit 1
fi

# The second net under the dependency rule (the first is test/archtest):
# what the compiler sees of core's dependencies.
step core depends on the standard library only
foreign=$(go list ./core/... |
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

# Subjects are read in lists and mails. Checked are the commits since BASE, or else since
# origin/main or the last tag.
step subjects of commits
for base in "${BASE:-}" origin/main "$(git describe --tags --abbrev=0 2>/dev/null || true)"; do
	if [[ -n $base ]] && git rev-parse --quiet --verify "$base^{commit}" >/dev/null; then
		long=$(git log --no-merges --format='%h %s' "$base..HEAD" | awk '{ hash = $1; sub(/^[^ ]+ /, "") } length >= 72 { print hash, $0 }')
		if [[ -n $long ]]; then
			echo "these subjects are longer than 71 characters (git rebase -i $base, reword):" >&2
			echo "$long" >&2
			exit 1
		fi
		break
	fi
done
