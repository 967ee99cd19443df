#!/bin/sh
# sbom.sh PROGRAM VERSION: what the program is made of, as SPDX 2.3: the Debian packages of the libraries that it loads, and of those
# whose code the compiler took from headers. On other systems than Debian, the program alone. It has no checksum of the program, which
# packaging may strip.
set -eu
program=$1
version=$2
headers="libasio-dev libcli11-dev nlohmann-json3-dev libxxhash-dev libhwy-dev"

package_of() {  # the package that has a file, whichever name the file has through links
  dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "$(realpath "$1")" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null
}

loaded() {
  ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | while read -r library; do
    package_of "$library" | sed -n '1s/:[^:]*: .*//p; 1s/: .*//p' | head -n 1
  done | sort -u
}

checksum=$(sha256sum "$program" | cut -d ' ' -f 1)
packages='' relations=''
add() {  # package, what it is to the program
  found=$(dpkg-query -W -f '${Version} ${Architecture}' "$1" 2>/dev/null) || return 0
  id=SPDXRef-$(printf %s "$1" | tr -c 'A-Za-z0-9.-' -)
  packages="$packages,
    {\"SPDXID\": \"$id\", \"name\": \"$1\", \"versionInfo\": \"${found% *}\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false,
     \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\",
                       \"referenceLocator\": \"pkg:deb/debian/$1@$(printf %s "${found% *}" | sed 's/+/%2B/g; s/:/%3A/g; s/~/%7E/g')?arch=${found#* }\"}]}"
  relations="$relations,
    {\"spdxElementId\": \"SPDXRef-causeway\", \"relationshipType\": \"$2\", \"relatedSpdxElement\": \"$id\"}"
}
if command -v dpkg-query >/dev/null; then
  for package in $(loaded); do add "$package" DYNAMIC_LINK; done
  for package in $headers; do add "$package" STATIC_LINK; done
fi

cat <<END
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "causeway-$version",
  "documentNamespace": "urn:sha256:$checksum",
  "creationInfo": {"created": "$(date -u -r "$program" +%Y-%m-%dT%H:%M:%SZ)", "creators": ["Organization: The Causeway authors"]},
  "packages": [
    {"SPDXID": "SPDXRef-causeway", "name": "causeway", "versionInfo": "$version", "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
     "primaryPackagePurpose": "APPLICATION", "licenseDeclared": "Apache-2.0"}$packages
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-causeway"}$relations
  ]
}
END
