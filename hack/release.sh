#!/usr/bin/env bash
# Makes a release into dist/VERSION: programs for every platform, an SBOM for each, the
# chart, checksums, and signatures over the checksums.
#
#   VERSION=v0.2.0 hack/release.sh
#
#   PLATFORMS     linux/amd64 linux/arm64
#   PROGRAMS      gpu-scheduler gpu-controller gpu-extender gpu-agent tangram
#   COSIGN_KEY    key to sign with cosign (a file, or a KMS address), if cosign is installed
#   SIGNING_KEY   private ssh key (ed25519) to sign with ssh-keygen
#
# The same sources and the same Go give the same bytes, signatures apart.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${VERSION:?VERSION is missing: VERSION=v0.2.0 hack/release.sh}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || {
	echo "VERSION: $version is not like v0.2.0 or v0.2.0-rc.1" >&2
	exit 2
}
platforms=${PLATFORMS:-linux/amd64 linux/arm64}
programs=${PROGRAMS:-gpu-scheduler gpu-controller gpu-extender gpu-agent tangram}
out=$PWD/dist/$version
export TANGRAM_VERSION=$version
missing=()

rm -rf "$out"
mkdir -p "$out"
for platform in $platforms; do
	for program in $programs; do
		GOOS=${platform%/*}
		GOARCH=${platform#*/}
		export GOOS GOARCH
		unset CC
		if [[ $program == gpu-agent ]]; then
			# cgo needs a C compiler for the platform.
			case $GOARCH in
			"$(go env GOHOSTARCH)") CC=$(go env CC) ;;
			arm64) CC=aarch64-linux-gnu-gcc ;;
			amd64) CC=x86_64-linux-gnu-gcc ;;
			esac
			export CC
			if ! command -v "${CC%% *}" >/dev/null; then
				missing+=("gpu-agent for $platform: no C compiler ${CC%% *}")
				continue
			fi
		fi
		file=$out/${program}_${version}_${GOOS}_$GOARCH
		echo "building ${file##*/}"
		hack/build.sh release "$program" "$file"
		env -u GOOS -u GOARCH CGO_ENABLED=0 go run ./hack/sbom "$file" >"$file.cdx.json"
		if [[ $program == tangram ]]; then # the same program is kubectl's plugin by another name
			ln -sf "${file##*/}" "$out/kubectl-${file##*/}"
		fi
	done
done
unset GOOS GOARCH CC

# helm writes the time into the archive; packed again without, it is the same every time.
echo "packing the chart"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bin/helm package charts/gpu-scheduler --version "${version#v}" --app-version "${version#v}" --destination "$work" >/dev/null
tar -xzf "$work/gpu-scheduler-${version#v}.tgz" -C "$work"
tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r,a+X -cf - gpu-scheduler |
	gzip -n >"$out/gpu-scheduler-${version#v}.tgz"

(cd "$out" && find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)

signed=
if [[ -n ${COSIGN_KEY:-} ]]; then
	command -v cosign >/dev/null || {
		echo "COSIGN_KEY is set, but cosign is not installed" >&2
		exit 1
	}
	cosign sign-blob --yes --key "$COSIGN_KEY" --output-signature "$out/SHA256SUMS.cosign" "$out/SHA256SUMS"
	signed+=" SHA256SUMS.cosign"
fi
if [[ -n ${SIGNING_KEY:-} ]]; then
	ssh-keygen -q -Y sign -n tangram-release -f "$SIGNING_KEY" "$out/SHA256SUMS" # writes SHA256SUMS.sig
	signed+=" SHA256SUMS.sig"
fi

echo
(cd "$out" && ls -l)
if ((${#missing[@]})); then
	printf 'NOT BUILT: %s\n' "${missing[@]}"
fi
if [[ -z $signed ]]; then
	echo "NOT SIGNED: set SIGNING_KEY (an ssh key) or COSIGN_KEY (with cosign installed)"
else
	echo "signed:$signed"
fi
