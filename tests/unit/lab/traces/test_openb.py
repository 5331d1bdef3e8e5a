"""The two files of openb: what is read of them, and what is refused."""

from pathlib import Path

import msgspec
import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.lab import read_world

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,2,T4\nb,8000,8192,2,T4\nc,8000,8192,2,G2\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def test_read(tmp_path: Path) -> None:
    """Shares of a GPU, whole ones, models, and a pod that never ends; pods by their arrival."""
    rows = "late,1000,1024,1,460,,LS,Running,9,,9\nearly,2000,512,2,1000,T4|G2,BE,Succeeded,1,5,1\n"
    (tmp_path / "openb_nodes.csv").write_text(NODES)
    (tmp_path / "openb_pods.csv").write_text(HEAD + rows)
    world = read_world(tmp_path)
    node, early, late = (msgspec.json.decode(raw) for raw in (world.objects[2], *(each.pod for each in world.arrivals)))
    assert node["status"]["allocatable"]["alibabacloud.com/gpu-milli"] == "2000"
    assert [(each.at, each.lasts) for each in world.arrivals] == [(1.0, 4.0), (9.0, float("inf"))]
    asked = [each["spec"]["containers"][0]["resources"]["requests"] for each in (early, late)]
    assert [each["alibabacloud.com/gpu-milli"] for each in asked] == ["2000", "460"]
    assert '"values":["T4","G2"]' in world.arrivals[0].pod.decode().replace(" ", "")
    assert "affinity" not in late["spec"]


@pytest.mark.parametrize(
    ("nodes", "pods", "said"),
    [
        pytest.param("a,b\n", HEAD, "openb_nodes.csv, line 1: no column sn, cpu_milli", id="columns"),
        pytest.param(NODES + "a,1,1,0,\n", HEAD, "openb_nodes.csv, line 5: sn: a is there twice", id="twice"),
        pytest.param(NODES + "d,x,1,0,\n", HEAD, 'line 5: cpu_milli: "x": expected a number', id="no number"),
        pytest.param(NODES + "d,-1,1,0,\n", HEAD, 'line 5: cpu_milli: "-1": expected a number', id="negative"),
        pytest.param(NODES + "d,1\n", HEAD, "openb_nodes.csv, line 5: expected 5 fields", id="short line"),
        pytest.param(NODES, HEAD + ",1,1,0,0,,,,0,1,\n", "openb_pods.csv, line 2: name: Required value", id="no name"),
        pytest.param("\xff", HEAD, "openb_nodes.csv: expected text in UTF-8", id="no text"),
    ],
)
def test_refused(tmp_path: Path, nodes: str, pods: str, said: str) -> None:
    """File, line, column and value."""
    (tmp_path / "openb_nodes.csv").write_text(nodes, encoding="latin-1")
    (tmp_path / "openb_pods.csv").write_text(pods)
    with pytest.raises(ObjectError) as error:
        read_world(tmp_path)
    assert said in str(error.value)
