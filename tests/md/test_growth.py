"""Lines on edges that outgrow those of earlier steps."""

from types import SimpleNamespace

import torch

from md_gie.md.growth import GrowthLog


def test_a_line_for_each_growth_by_a_twentieth() -> None:
    forces, lines = SimpleNamespace(n_edges=0), list[str]()
    log = GrowthLog(forces, torch.device("cpu"), lines.append)
    for step, n_edges in enumerate([1000, 900, 1040, 1050, 1051, 1090, 1000, 1200]):
        forces.n_edges = n_edges
        log.observe(SimpleNamespace(step=step))
    assert [line.split(";")[0] for line in lines] == [
        "step 4: edges grew from 1000 to 1051",
        "step 7: edges grew from 1051 to 1200",
    ]
    assert "peak memory so far host" in lines[0]
