"""Reads worlds and configurations from files: finds out which form a path has, and asks the module that reads it."""

from pathlib import Path

from podberth.explain.objects.documents import GZIP, ObjectError, parse, plain, readable, unpacked
from podberth.explain.objects.world import World as Dump
from podberth.framework.config import ConfigError, SchedulerConfiguration, decode, default_configuration
from podberth.lab.traces import reader_of
from podberth.lab.world import Arrival, World
from podberth.model import wire
from podberth.model.kinds import KINDS

_ENDINGS = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")


def read_world(path: str | Path) -> World:
    """Return the world that a file or a directory holds.

    The form is found out: what `berth run --record` or `berth shadow --record` has written is a directory of segments,
    and its last run is the world; a trace in one of the forms of `podberth.lab.traces`; all else is a dump, one file of
    JSON or YAML or a directory of them, as `berth dump` or kubectl write it. Pods of a dump that have no node come at
    0, the oldest first; what is there never ends.

    Raises ObjectError with a line for each problem, naming the file, the object and the field, and OSError.
    """
    path = Path(path)
    try:
        if path.is_dir() and any(each.suffix == ".log" for each in path.iterdir()):
            return _recording(path)
        trace = reader_of(path)
        return _dump(path) if trace is None else trace()
    except ObjectError as error:
        raise ObjectError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None


def configuration(path: str | Path | None = None) -> SchedulerConfiguration:
    """Return the KubeSchedulerConfiguration of a file, or the default one.

    Raises ConfigError or ObjectError with a line for each problem, and OSError.
    """
    if path is None:
        return default_configuration()
    try:
        return decode(parse(_content(Path(path))))
    except (ConfigError, ObjectError) as error:
        raise type(error)("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    return unpacked(raw) if raw.startswith(GZIP) else raw


def _recording(path: Path) -> World:
    from podberth.lab.recording.log import LogError  # it needs the extra `lab`
    from podberth.lab.recording.reading import part
    from podberth.lab.recording.world import Recorded

    try:
        return Recorded(part(path)).world(path.name)
    except LogError as error:
        raise ObjectError(str(error)) from None


def _dump(path: Path) -> World:
    files = [path]
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.name.endswith(_ENDINGS) and each.is_file())
        if not files:
            raise ObjectError("holds no files of JSON or YAML: expected a cluster's dump, or a trace")
    dump = Dump()
    objects: list[bytes] = []
    pods: dict[str, bytes] = {}
    for file in files:
        documents, wrong = readable(_content(file))
        if wrong:
            raise ObjectError("\n".join(wrong))
        dump.add_documents(documents, file.name if path.is_dir() else "")
        for document in documents:
            if document.kind in KINDS:
                found = {**plain(document), "kind": document.kind}  # the items of a list leave the kind out
                raw = wire.encode(found)
                if document.kind == "Pod":
                    pods[f"{found['metadata'].get('namespace') or 'default'}/{found['metadata']['name']}"] = raw
                else:
                    objects.append(raw)
    waiting = sorted(dump.waiting.values(), key=lambda pod: pod.created)
    return World(
        name=path.name.split(".")[0],
        objects=(*objects, *(pods[key] for key in dump.placed)),
        arrivals=tuple(Arrival(0.0, pods[pod.key]) for pod in waiting),
    )
