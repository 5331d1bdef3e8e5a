"""A recording of `berth shadow`: the same answers, also with masks, and without what no decision reads."""

from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from podberth.explain.shadow.shadow import Change, Shadow
from podberth.lab.recording.log import frames, segments
from podberth.lab.recording.masked import write_masked
from podberth.lab.recording.reading import part
from podberth.lab.recording.recorder import ShadowRecorder
from podberth.lab.recording.world import changes
from podberth.model.annotated import AnnotationsRead
from podberth.model.kinds import Decoder
from tests.builders import node
from tests.unit.explain.shadow.test_shadow import OTHER, TWO, Stream, theirs
from tests.unit.explain.story import framework


def test_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each pod is judged as it was when it was seen; names differ where they are masked."""
    stream = Stream([*TWO, node("third", "6", labels={"team": "blue"})])
    for name, cpu, where in (("a", "1", "small"), ("b", "5", "small"), ("c", "1", "large"), ("d", "2", "third")):
        made = theirs(name, cpu)
        made["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "secret"}]
        stream.put(made)
        stream.bind(made, where)
    stream.gone(theirs("a"))
    stream.end()
    ended: list[str] = []
    there = tmp_path / "there"
    recorder = ShadowRecorder(there, OTHER, Decoder(), 1.0, ended=ended.append)
    for each in stream.changes:
        recorder.write(each)
    recorder.close()
    assert ended == []
    held = b"".join(frame for each in segments(there) for frame in frames(each))
    assert b"secret" not in held
    assert write_masked(there, tmp_path / "hidden") > len(stream.changes)
    hidden = b"".join(frame for each in segments(tmp_path / "hidden") for frame in frames(each))
    assert b"blue" not in hidden
    for directory in ("there", "hidden"):
        shadow = Shadow(framework(), OTHER)
        last = part(tmp_path / directory)
        seen = changes(last.events(), last.head)
        again = [each for change in seen for each in shadow.see(change)] + shadow.finish()
        assert [(each.verdict, each.lead) for each in again] == [(each.verdict, each.lead) for each in stream.answers]
        assert not shadow.world.placed.keys() & {"default/a"}
        if directory == "there":
            assert [each.pod for each in again] == [each.pod for each in stream.answers]
        else:
            assert all(each.node.startswith("mask") for each in again)


def test_keeps_the_annotations_that_plugins_read(tmp_path: Path) -> None:
    """Who decides again with the same plugins reads what they read then."""
    read = AnnotationsRead(of_nodes=frozenset(("x.test/rack",)))
    made = node("n0")
    made["metadata"]["annotations"] = {"x.test/rack": "r7", "x.test/note": "nobody reads this"}
    recorder = ShadowRecorder(tmp_path, OTHER, Decoder(read), 1.0, ended=lambda why: None)
    recorder.write(Change(at=0.0, kind="Node", object=Raw(msgspec.json.encode(made)), listed=True))
    recorder.close()
    (found,) = part(tmp_path).state().documents()
    assert found["metadata"]["annotations"] == {"x.test/rack": "r7"}
