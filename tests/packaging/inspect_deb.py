# SPDX-License-Identifier: MIT
"""Inspect a package that packaging/deb built: its files, their owners, its dependencies, and the start of its program.

tests/packaging/inspect_deb.py FILE.deb
"""

import pathlib
import re
import subprocess
import sys
import tempfile

FILES = {"/usr/bin/beamline": "-rwxr-xr-x", "/etc/beamline.conf": "-rw-r--r--", "/lib/systemd/system/beamline.service": "-rw-r--r--",
         "/usr/lib/sysusers.d/beamline.conf": "-rw-r--r--", "/usr/share/man/man1/beamline.1.gz": "-rw-r--r--",
         "/usr/share/bash-completion/completions/beamline": "-rw-r--r--", "/usr/share/zsh/vendor-completions/_beamline": "-rw-r--r--",
         "/usr/share/fish/vendor_completions.d/beamline.fish": "-rw-r--r--",
         "/usr/share/beamline/grafana-dashboard.json": "-rw-r--r--", "/usr/share/beamline/prometheus-alerts.yml": "-rw-r--r--",
         "/usr/share/doc/beamline/copyright": "-rw-r--r--", "/usr/share/doc/beamline/docs/api.md": "-rw-r--r--",
         "/usr/share/doc/beamline/proto/openapi.yaml": "-rw-r--r--", "/usr/share/doc/beamline/changelog.gz": "-rw-r--r--"}


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def complaints(package):
    listing = {}
    for line in run("dpkg-deb", "-c", package).splitlines():
        mode, owner, _, _, _, name = line.split(None, 5)
        listing[name[1:]] = mode
        if owner != "root/root":
            yield f"{name} belongs to {owner}"
        if "s" in mode.lower() or (mode[8] == "w" and mode[0] != "l"):
            yield f"{name} is {mode}"
    for name, mode in FILES.items():
        if listing.get(name) != mode:
            yield f"{name} is {listing.get(name, 'not there')}, not {mode}"
    for name in listing:
        if not name.startswith(("/etc", "/lib/systemd", "/usr")) and name not in ("/", "/lib/"):
            yield f"{name} has no place there"
    depends = run("dpkg-deb", "-f", package, "Depends")
    for wanted in ("libc6", "libmicrohttpd", "libsystemd0", "libcurl", "systemd | "):
        if wanted not in depends:
            yield f"it does not depend on {wanted}: {depends}"
    with tempfile.TemporaryDirectory() as folder:
        run("dpkg-deb", "-R", package, folder)
        control = pathlib.Path(folder, "DEBIAN")
        if "/etc/beamline.conf" not in (control / "conffiles").read_text().split():
            yield "/etc/beamline.conf is no configuration file"
        for wanted in ("systemd-sysusers", "deb-systemd-invoke"):
            if wanted not in (control / "postinst").read_text():
                yield f"postinst has no {wanted}"
        if "rm -rf /var/cache/beamline /var/lib/beamline" not in (control / "postrm").read_text():
            yield "a purge leaves behind what the server wrote"
        program = pathlib.Path(folder, "usr/bin/beamline")
        if run(program, "version").split()[1] != run("dpkg-deb", "-f", package, "Version").strip():
            yield "the program has another version"
        if not re.search(r"BIND_NOW|NOW", run("readelf", "-d", program)) or "DYN" not in run("readelf", "-h", program):
            yield "the program is not hardened: no BIND_NOW, or not position-independent"
        if "interp:0" not in run(program, "devices", "--backends", "interp", "--config", pathlib.Path(folder, "etc/beamline.conf")):
            yield "the program finds no device"


def main():
    found = list(complaints(sys.argv[1]))
    print("\n".join(found) or f"{sys.argv[1]}: {len(FILES)} files and what goes with them are as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
