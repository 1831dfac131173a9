#!/usr/bin/env bash
# publish.sh LAYOUT REPOSITORY TAG DOCUMENTS: pushes the one image of an OCI layout by its digest, signs it, attests its
# provenance and what it holds (DOCUMENTS.provenance.json, .spdx.json, .cyclonedx.json), verifies all four, and only then
# gives it the tag. A tag that leads to another image stays as it is, unless the environment's FORCE is 1.
# Prints REPOSITORY@DIGEST. The key is the environment's COSIGN_KEY, a file or a KMS, whose password is in
# COSIGN_PASSWORD. It asks the registry alone: no server of Sigstore.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"

layout=$1 repository=$2 tag=$3 documents=$4
[ -n "${COSIGN_KEY:-}" ] || fail "COSIGN_KEY is not set: give the file of the private key, or its URI in a KMS"
for kind in provenance spdx cyclonedx; do
  [ -s "$documents.$kind.json" ] || fail "$documents.$kind.json is missing or empty"
done
cosign=$("$SANDBOX/program.sh" supply/cosign)/cosign
crane=$("$SANDBOX/program.sh" supply/crane)/crane
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# NB: both are empty. Without them cosign asks Sigstore's servers for theirs.
"$cosign" signing-config create --out "$work/services.json"
"$cosign" trusted-root create --out "$work/root.json"
alone=(--signing-config "$work/services.json" --trusted-root "$work/root.json" --yes)
"$cosign" public-key --key "$COSIGN_KEY" > "$work/cosign.pub" || fail "COSIGN_KEY cannot be used; is COSIGN_PASSWORD its password?"

digest=$("$HOST_PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["manifests"][0]["digest"])' < "$layout/index.json")
image=$repository@$digest
verify() { # VERB OPTION...: what users do, see docs/supply-chain.md
  "$cosign" "$1" --key "$work/cosign.pub" --insecure-ignore-tlog=true --trusted-root "$work/root.json" "${@:2}" "$image" > /dev/null
}
attest() { # TYPE KIND
  "$cosign" attest --key "$COSIGN_KEY" "${alone[@]}" --type "$1" --predicate "$documents.$2.json" "$image"
  verify verify-attestation --type "$1"
}
require_free_tag() { # NB: after the push: some registries refuse questions about a repository that does not exist yet
  local known answer
  [ "${FORCE:-}" != 1 ] || return 0
  if known=$("$crane" digest "$repository:$tag" 2> "$work/answer"); then
    [ "$known" = "$digest" ] || fail "$repository:$tag is $known already, and nodes may run it:" \
      "give this image a version of its own, or move the tag with FORCE=1"
    return 0
  fi
  answer=$(tail -1 "$work/answer")
  [[ "$answer" =~ MANIFEST_UNKNOWN|NOT_FOUND|"404 Not Found" ]] ||
    fail "the registry does not say whether $repository:$tag exists: $answer"
}

{
  "$crane" push "$layout" "$image"
  require_free_tag
  "$cosign" sign --key "$COSIGN_KEY" "${alone[@]}" "$image"
  verify verify
  attest slsaprovenance1 provenance
  attest spdxjson spdx
  attest cyclonedx cyclonedx
  require_free_tag # it may have been taken meanwhile
  "$crane" tag "$image" "$tag"
} >&2
echo "$image"
