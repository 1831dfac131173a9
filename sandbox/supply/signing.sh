# shellcheck shell=bash
# How images are signed and attested with the environment's COSIGN_KEY, and when they get a tag. Sourced, never run.

# Sets cosign and crane, and leaves a folder, work, that goes with the script. Fails without a key that can be used.
prepare_to_sign() {
  [ -n "${COSIGN_KEY:-}" ] || fail "COSIGN_KEY is not set: give the file of the private key, or its URI in a KMS"
  cosign=$("$SANDBOX/program.sh" supply/cosign)/cosign
  crane=$("$SANDBOX/program.sh" supply/crane)/crane
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # NB: both are empty. Without them cosign asks Sigstore's servers for theirs.
  "$cosign" signing-config create --out "$work/services.json"
  "$cosign" trusted-root create --out "$work/root.json"
  alone=(--signing-config "$work/services.json" --trusted-root "$work/root.json" --yes)
  "$cosign" public-key --key "$COSIGN_KEY" > "$work/cosign.pub" || fail "COSIGN_KEY cannot be used; is COSIGN_PASSWORD its password?"
}

verify() { # VERB IMAGE OPTION...: what users do, see docs/supply-chain.md
  "$cosign" "$1" --key "$work/cosign.pub" --insecure-ignore-tlog=true --trusted-root "$work/root.json" "${@:3}" "$2" > /dev/null
}

sign() { # IMAGE
  "$cosign" sign --key "$COSIGN_KEY" "${alone[@]}" "$1"
  verify verify "$1"
}

attest() { # IMAGE TYPE DOCUMENT
  "$cosign" attest --key "$COSIGN_KEY" "${alone[@]}" --type "$2" --predicate "$3" "$1"
  verify verify-attestation "$1" --type "$2"
}

require_free_tag() { # NAME:TAG DIGEST: the tag leads to that image or to none
  local known answer
  [ "${FORCE:-}" != 1 ] || return 0
  if known=$("$crane" digest "$1" 2> "$work/answer"); then
    [ "$known" = "$2" ] || fail "$1 is $known already, and nodes may run it:" \
      "give this image a version of its own, or move the tag with FORCE=1"
    return 0
  fi
  answer=$(tail -1 "$work/answer")
  [[ "$answer" =~ MANIFEST_UNKNOWN|NOT_FOUND|"404 Not Found" ]] ||
    fail "the registry does not say whether $1 exists: $answer"
}
