# SPDX-License-Identifier: MIT
# Installs missing packages for ./run and ./check.  Source this file, then call `need KIND...` with kinds of tools/packages.
# shellcheck shell=bash

# The packages are for the system's Python, so the system's Python comes first in PATH.
export PATH="/usr/bin:$PATH"

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Prints and installs the missing packages of these kinds.  Without missing packages it does nothing and needs no network.
need() {
    local root missing=() kind package why wanted=" $* "
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    if ! command -v dpkg-query >/dev/null; then
        echo "This system has no dpkg: install what tools/packages lists for$wanted yourself." >&2
        return 0
    fi
    while read -r kind package why; do
        [[ $wanted == *" $kind "* ]] || continue
        is_installed "$package" && continue
        [ ${#missing[@]} -gt 0 ] || echo "Missing, to be installed with apt:"
        printf '  %-26s %s\n' "$package" "$why"
        missing+=("$package")
    done < <(grep -v '^#' "$root/tools/packages")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        echo "Neither root nor sudo: install them yourself, then start again." >&2
        return 1
    fi
    # The package lists may be absent or old: fetch them only if the installation fails.
    apt_install "${missing[@]}" || { as_root apt-get update && apt_install "${missing[@]}"; }
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

apt_download() {
    apt-get download -qq "$1" 2>/dev/null || { as_root apt-get update -q && apt-get download -qq "$1"; }
}

# Packages from which the tests run a single program are unpacked into build/unpacked/PACKAGE, without installation.  Without a
# network, the tests that need a package say so.
unpack() {
    local root folder kind package why
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    command -v dpkg-deb >/dev/null || return 0
    while read -r kind package why; do
        folder=$root/build/unpacked/$package
        [ "$kind" = unpack ] && [ ! -d "$folder" ] || continue
        echo "Unpacking $package: $why"
        mkdir -p "$root/build/unpacked/new"
        (cd "$root/build/unpacked/new" && apt_download "$package" && dpkg-deb -x "$package"_*.deb tree && mv tree "$folder") ||
            echo "$package is not to be had." >&2
        rm -rf "$root/build/unpacked/new"
    done < <(grep -v '^#' "$root/tools/packages")
}
