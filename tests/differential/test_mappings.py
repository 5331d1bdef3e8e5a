"""Which request of a claim for extended resources serves which container: Berth says what kube-scheduler does."""

from __future__ import annotations

import gzip
import json

from tests.differential.mappings import PER_SEED, RECORDED, differences

RECORDS = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]


def test_the_recorded_pods() -> None:
    """The same requests and mappings, in the same order; init containers use what later containers will have."""
    assert differences(RECORDS, [record["want"] for record in RECORDS]) == []


def test_the_records_are_of_use() -> None:
    """Most pods ask for something, and many of their containers are served by several requests."""
    served = [record["want"]["mappings"] for record in RECORDS if record["want"]["mappings"]]
    several = [one for one in served if len(one) > len({(each["containerName"], each["resourceName"]) for each in one})]
    assert len(RECORDS) >= PER_SEED
    assert len(served) > len(RECORDS) // 2
    assert len(several) > len(RECORDS) // 10
