"""The page of several daemons: which daemon each row is from.

Requires a browser, as test_web_page.py does.
"""

from collections.abc import Callable, Iterator

import pytest
from browser import CHROMIUM, IS_REQUIRED, Browser
from chunk_bytes import Chunk, Record, float32
from web_pages import TIMEOUT_S, Web, go, opened
from wire import write

from daemon import Daemon

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not IS_REQUIRED, reason="chromium is not installed"
)

OPS = ("a", "b", "c")
# The column of the daemon, and the number of rows.
NODES = "[...document.querySelectorAll('tr[data-row]')].map(e=>e.cells[0].textContent)"
COUNT = "document.querySelector('.bar+[role=status]')?.textContent"
CHOOSE = (
    "(node=>{const e=document.querySelector('select.nodes');e.value=node;"
    "e.dispatchEvent(new Event('change'))})"
)


def records(factor: float) -> list[Record]:
    return [
        Record(op, float32(factor * (i + 1)), [1], sequence=i)
        for i, op in enumerate(OPS)
    ]


@pytest.fixture
def daemons(new_daemon: Callable[[], Daemon]) -> list[Daemon]:
    """Two daemons, each with one rank of two runs that differ."""
    out = [new_daemon(), new_daemon()]
    for rank, daemon in enumerate(out):
        daemon.start()
        for run, factor in (("golden", 1.0), ("target", 3.0)):
            chunk = Chunk(run, records(factor), rank=rank).pack()
            write(daemon.channel(), run, [chunk], rank=rank, world_size=2)
    return out


@pytest.fixture
def fleet(daemons: list[Daemon]) -> Iterator[Web]:
    endpoints = ",".join(daemon.endpoint for daemon in daemons)
    web = Web({}, "--endpoints", endpoints, "web", "--listen", "127.0.0.1:0")
    yield web
    web.process.kill()
    web.process.communicate(timeout=TIMEOUT_S)


def compared(web: Web) -> str:
    """Compares both runs, and returns the name of the comparison when it has ended."""
    runs = {"golden_run": "golden", "target_run": "target"}
    request = {"comparison": runs}
    name: str = web.call("ComparisonService.CreateComparison", request)["name"]
    while web.call("page.comparison", {"comparison": name})["verdict"] == "-":
        pass
    return name


def test_rows_name_their_daemon(fleet: Web, daemons: list[Daemon]) -> None:
    name = compared(fleet)
    nodes = [daemon.endpoint for daemon in daemons]
    for call in ("page.rows", "ComparisonService.ListComparisonRows"):
        answer = fleet.call(call, {"comparison": name})
        by_rank = {
            row["rank"] or 0: n
            for row, n in zip(answer["rows"], answer["row_nodes"], strict=True)
        }
        assert [by_rank[rank] for rank in (0, 1)] == nodes, call
    # A page of one daemon is continued with rows of this daemon.
    seen: list[str] = []
    token = ""
    while True:
        answer = fleet.call(
            "page.rows",
            {"comparison": name, "node": nodes[1], "page_size": 2, "page_token": token},
        )
        assert set(answer["row_nodes"]) == {nodes[1]}
        seen += [row["op"] for row in answer["rows"]]
        token = answer["next_page_token"]
        if not token:
            break
    assert seen == list(OPS)
    other = {"comparison": name, "node": "elsewhere"}
    error = fleet.call("page.rows", other, expect=404)["error"]
    assert "elsewhere is not one of the daemons" in error
    # A run may be on several daemons, so its row names none.
    runs = fleet.call("RunService.ListRuns")
    assert "row_nodes" not in runs
    assert runs["held_by"]["golden"] == {nodes[0]: "0", nodes[1]: "1"}
    for bad in ('{"node": 1}', '{"node": "x", "none": 1}', '{"node": "x"', "[]"):
        assert fleet.request("POST", "/api/v1/page.rows", bad).status == 400, bad
    deep = '{"node": "x", "rows": ' + "[" * 30_000 + "]" * 30_000 + "}"
    assert fleet.request("POST", "/api/v1/page.rows", deep).status in (400, 404)
    assert fleet.call("page.rows", {"comparison": name})["rows"]


def test_rows_are_filtered_by_daemon(
    browser: Browser, fleet: Web, daemons: list[Daemon]
) -> None:
    name = compared(fleet)
    nodes = [daemon.endpoint for daemon in daemons]
    opened(browser, fleet)
    go(browser, f"#/c/{name}")
    browser.wait(f"{COUNT}==='6 rows'")
    assert sorted(set(browser.run(NODES))) == sorted(nodes)
    options = "[...document.querySelector('select.nodes').options].map(o=>o.value)"
    assert browser.run(options) == ["", *nodes]
    browser.run(f"{CHOOSE}({nodes[1]!r})")
    browser.wait(f"{COUNT}==='3 rows'")
    assert browser.run(NODES) == [nodes[1]] * len(OPS)
    # The address has the choice.
    browser.send("Page.reload")
    browser.wait(f"{COUNT}==='3 rows'")
    assert browser.run("document.querySelector('select.nodes').value") == nodes[1]
    go(browser, f"#/c/{name}?node=elsewhere")
    browser.wait("document.body.innerText.includes('is not one of the daemons')")
    assert browser.run("document.querySelector('select.nodes').value") == "elsewhere"
    browser.run(f"{CHOOSE}('')")
    browser.wait(f"{COUNT}==='6 rows'")
    # Rows of several daemons have neither a map nor a tree.
    assert (
        browser.run(
            "document.querySelectorAll('.map .bar :not([hidden])>select').length"
        )
        == 0
    )
    assert (
        browser.run("document.querySelector('.views').textContent")
        == "Curves of both runs"
    )
    # The view of the map is not offered, and the other daemon is not known.
    assert all("501" in error or "404" in error for error in browser.errors)


def test_runs_name_their_daemons(
    browser: Browser, fleet: Web, daemons: list[Daemon]
) -> None:
    nodes = [daemon.endpoint for daemon in daemons]
    write(daemons[1].channel(), "one", [Chunk("one", records(1.0)).pack()])
    browser.open(fleet.url)
    browser.wait("document.querySelectorAll('#main tbody tr').length===3")
    held = browser.run(
        "Object.fromEntries([...document.querySelectorAll('#main tbody tr')]"
        ".map(r=>[r.cells[0].textContent,r.cells[3].textContent]))"
    )
    both = ", ".join(sorted(nodes))
    assert held == {"golden": both, "target": both, "one": nodes[1]}
    assert browser.errors == []
