"""docs/lake.md from its first command to its last: two queue managers, a cluster, S3, kills and a replay."""

import os
import shutil
from pathlib import Path

import pytest

from docs.page_session import Session, own_network
from docs.pages import ROOT, blocks

S3 = ROOT / ".venv-object-stores" / "bin"  # with moto's server, from `make shipping`
PATIENCE_S = 1200  # only a run that fails waits that long


@pytest.mark.skipif(
    "TIERCEL_SHIPPING" not in os.environ, reason="takes minutes: set TIERCEL_SHIPPING, or make shipping"
)
def test_each_step_of_the_page(tmp_path: Path) -> None:
    """Lost or doubled messages, and a metric that is missing, differ from what the page shows."""
    if not (S3 / "moto_server").exists():
        pytest.skip("no S3 server; make shipping installs one")
    if missing := [tool for tool in ("curl", "jq", "pgrep", "java") if shutil.which(tool) is None]:
        pytest.skip(
            f"missing programs (Debian: apt install curl jq procps openjdk-17-jre-headless): {missing}"
        )
    if not own_network():
        pytest.skip("the system makes no network namespace")
    Session(blocks(ROOT / "docs" / "lake.md"), tmp_path).run(more=[S3], patience_s=PATIENCE_S)
