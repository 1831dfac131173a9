#!/usr/bin/env bash
# index.sh REPOSITORY VERSION ARCH...: joins REPOSITORY:VERSION-ARCH, which publish.sh has pushed, to one name for all kinds of
# machines. Each of them must be signed by the environment's COSIGN_KEY. The index is signed, too, and only then gets the tag
# VERSION; one that leads to another image stays as it is, unless FORCE is 1. Prints REPOSITORY@DIGEST.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../env.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/signing.sh"

repository=$1 version=$2
prepare_to_sign
images=()
for arch in "${@:3}"; do
  digest=$("$crane" digest "$repository:$version-$arch") || fail "$repository:$version-$arch is not in the registry: publish it first"
  verify verify "$repository@$digest" || fail "$repository:$version-$arch is not signed by this key"
  images+=(--manifest "$repository@$digest")
done
{
  # NB: a tag of its own, as a name is needed to push: the version's must not lead to what is not signed.
  "$crane" index append "${images[@]}" --tag "$repository:$version-index"
  digest=$("$crane" digest "$repository:$version-index")
  sign "$repository@$digest"
  require_free_tag "$repository:$version" "$digest"
  "$crane" tag "$repository@$digest" "$version"
} >&2
echo "$repository@$digest"
