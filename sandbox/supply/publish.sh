#!/usr/bin/env bash
# publish.sh LAYOUT REPOSITORY TAG DOCUMENTS: pushes the one image of an OCI layout by its digest, signs it, attests its
# provenance and what it holds (DOCUMENTS.provenance.json, .spdx.json, .cyclonedx.json), verifies all four, and only then
# gives it the tag. A tag that leads to another image stays as it is, unless the environment's FORCE is 1.
# Prints REPOSITORY@DIGEST. The key is the environment's COSIGN_KEY, a file or a KMS, whose password is in
# COSIGN_PASSWORD. It asks the registry alone: no server of Sigstore.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/signing.sh"

layout=$1 repository=$2 tag=$3 documents=$4
for kind in provenance spdx cyclonedx; do
  [ -s "$documents.$kind.json" ] || fail "$documents.$kind.json is missing or empty"
done
prepare_to_sign
digest=$("$HOST_PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["manifests"][0]["digest"])' < "$layout/index.json")
image=$repository@$digest
{
  "$crane" push "$layout" "$image"
  # NB: after the push: some registries refuse questions about a repository that does not exist yet.
  require_free_tag "$repository:$tag" "$digest"
  sign "$image"
  attest "$image" slsaprovenance1 "$documents.provenance.json"
  attest "$image" spdxjson "$documents.spdx.json"
  attest "$image" cyclonedx "$documents.cyclonedx.json"
  require_free_tag "$repository:$tag" "$digest" # it may have been taken meanwhile
  "$crane" tag "$image" "$tag"
} >&2
echo "$image"
