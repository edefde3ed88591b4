"""Write the image of a server to dist/image, an OCI layout, without a daemon.

`make image` runs this as root, on Debian or its relatives, with mmdebstrap and libdeflate-gzip,
whose output is a sixteenth smaller than gzip's. Two builds of a commit have the same bytes as long
as Debian's archive does not change.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = "usr/local/lib/python3.11/dist-packages"
PACKAGES = "python3.11-minimal,libpython3.11-stdlib,libstdc++6"
USER = 10001
HOME = "var/lib/geoveil"
FILES = {
    "etc/passwd": f"geoveil:x:{USER}:{USER}::/{HOME}:/usr/sbin/nologin\n",
    "etc/group": f"geoveil:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
    "usr/local/bin/geoveil": "#!/usr/bin/python3.11 -I\nfrom geoveil.cli import main\n\nmain()\n",
}
NOT_SERVED = (
    "etc/apt",
    "etc/hostname",
    "etc/resolv.conf",
    "bin/tar",
    "usr/bin/dpkg*",
    "usr/lib/python3.11/ensurepip",
    "usr/lib/python3.11/lib2to3",
    "usr/lib/python3.11/pydoc_data",
    "usr/lib/python3.11/test",
    "usr/lib/*/gconv",
    "usr/lib/*/libdb-*",
    "var/cache",
    "var/lib/apt",
    "var/log",
    f"{LIBRARY}/bin",
    f"{LIBRARY}/*.dist-info/RECORD",
    f"{LIBRARY}/geoveil-*.dist-info/direct_url.json",
    f"{LIBRARY}/geoveil/simulation/data",
    f"{LIBRARY}/pyproj/proj_dir",
    f"{LIBRARY}/**/tests",
    f"{LIBRARY}/**/*.pyi",
    f"{LIBRARY}/**/*.[ah]",
    f"{LIBRARY}/**/*.p[xy][dx]",
)
"""Files that no server reads: package lists and tools, tests, headers, other commands' data."""
COMPILE = """
import sys
from py_compile import PycInvalidationMode, compile
import geoveil.cli.health, geoveil.cli.serve, geoveil.gateway.server, geoveil.gateway.supervisor
for path in sorted(getattr(module, "__file__", None) or "" for module in sys.modules.values()):
    if path.endswith(".py"):
        compile(path, doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
"""
"""Compiled in advance, because a read-only root file system can't keep bytecode."""
CONFIG = {
    "User": f"{USER}:{USER}",
    "Env": ["PATH=/usr/local/bin:/usr/bin"],
    "Entrypoint": ["geoveil"],
    "Cmd": ["serve", "--host=0.0.0.0", f"--database=/{HOME}/reports.db"],
    "WorkingDir": f"/{HOME}",
    "Volumes": {f"/{HOME}": {}},
    "ExposedPorts": {"7717/tcp": {}, "7718/tcp": {}},
}
MEDIA = "application/vnd.oci.image."


def main(folder: Path) -> None:
    """Build the image and print its size and digest.

    Args:
        folder: the folder of the layout, which is replaced.
    """
    if sys.version_info[:2] != (3, 11):
        raise SystemExit("The image has Python 3.11: build it with that.")
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _output("git", "log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _fill(work / "root", work)
        layer = work / "layer.tar"
        order = ("--sort=name", "--format=gnu", "--numeric-owner")
        times = ("--clamp-mtime", f"--mtime=@{epoch}")
        _run("tar", "--create", *order, *times, "--directory", work / "root", "--file", layer, ".")
        shutil.rmtree(folder, ignore_errors=True)
        digest = _lay_out(folder, layer, datetime.fromtimestamp(int(epoch), UTC))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB, {digest}")


def _fill(root: Path, work: Path) -> None:
    """Unpack Debian's packages and install the wheel of this tree.

    Packages are not configured, so that the image has no shell, log or machine identity.
    """
    only = ("path-exclude=/usr/share/*", "path-include=/usr/share/doc/*/copyright")
    options = (f"--include={PACKAGES}", *(f"--dpkgopt={option}" for option in only))
    _run("mmdebstrap", "--quiet", "--variant=extract", *options, "bookworm", root)
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", work)
    (wheel,) = work.glob("*.whl")
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (work / "wheel.txt").write_text(f"geoveil[server] @ file://{wheel}#sha256={sha256}\n")
    hashed = ("--require-hashes", "--constraint", "requirements/all.txt")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    plain = ("--no-compile", "--only-binary", ":all:", "--target", root / LIBRARY)
    _run(*pip, *plain, *hashed, "--requirement", work / "wheel.txt")
    for pattern in NOT_SERVED:
        for path in list(root.glob(pattern)):
            _run("rm", "-rf", path)
    for place in ("proc", "sys", HOME, "usr/local/bin"):
        (root / place).mkdir(parents=True, exist_ok=True)
    for place, text in FILES.items():
        (root / place).write_text(text)
    _run(
        "env",
        "-i",
        "PYTHONHASHSEED=0",
        shutil.which("chroot"),
        root,
        "python3.11",
        "-B",
        "-c",
        COMPILE,
    )
    _run("chmod", "-R", "u=rwX,go=rX", root)
    (root / "usr/local/bin/geoveil").chmod(0o755)
    (root / "tmp").chmod(0o1777)
    os.chown(root / HOME, USER, USER)


def _lay_out(folder: Path, layer: Path, created: datetime) -> str:
    """Write a layout of one layer and return the digest of its manifest."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    unpacked = hashlib.sha256(layer.read_bytes()).hexdigest()
    _run("libdeflate-gzip", "-12", "-n", layer)

    def add(content: bytes, kind: str) -> dict[str, object]:
        sha256 = hashlib.sha256(content).hexdigest()
        (blobs / sha256).write_bytes(content)
        return {"mediaType": MEDIA + kind, "digest": f"sha256:{sha256}", "size": len(content)}

    of_layer = add(layer.with_suffix(".tar.gz").read_bytes(), "layer.v1.tar+gzip")
    time = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {
        "created": time,
        "architecture": _output("dpkg", "--print-architecture"),
        "os": "linux",
        "config": CONFIG,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{unpacked}"]},
        "history": [{"created": time, "created_by": "tools/image.py"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}manifest.v1+json",
        "config": add(json.dumps(config).encode(), "config.v1+json"),
        "layers": [of_layer],
    }
    described = add(json.dumps(manifest).encode(), "manifest.v1+json")
    described["annotations"] = {"org.opencontainers.image.ref.name": "geoveil"}
    index = {"schemaVersion": 2, "manifests": [described]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(described["digest"])


def _run(*command: str | Path | None) -> None:
    subprocess.run(list(map(str, command)), cwd=ROOT, check=True)  # noqa: S603


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return done.stdout.strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
