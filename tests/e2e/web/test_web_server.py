"""`msitctl web`: who it answers, and what its calls return."""

import json
import os
import re
import socket
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msitd import query
from web_pages import FAILING, MARKUP, ROWS, TIMEOUT_S, Web, compared, serving

from daemon import BIN_DIR, Daemon

NO_LIMIT_S = 5.0


def test_the_page_is_served_with_a_strict_policy(web: Web) -> None:
    response = web.request("GET", "/", Authorization=None)
    text = response.read().decode()
    assert response.status == 200
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';script-src 'self'")
    assert "unsafe" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-store"
    assert "http://" not in text and "https://" not in text
    for file in ("/main.js", "/style.css", "/theme.css", "/views.css"):
        assert web.request("GET", file).status == 200, file


def test_the_page_is_small(web: Web) -> None:
    texts: dict[str, bytes] = {}
    targets = ["/"]
    while targets:
        target = targets.pop()
        if target in texts:
            continue
        response = web.request("GET", target)
        assert response.status == 200, target
        texts[target] = response.read()
        # Files of the page, and modules that modules import.
        targets += [
            name.decode()
            for name in re.findall(
                rb'(?:(?:href|src)="|from "\.)(/[a-z.]+)"', texts[target]
            )
        ]
    own = {f"/{file.name}" for file in Path("client/web/page").glob("*.*")}
    shared = Path("client/ask/report/page/views").glob("*.*")
    assert own - {"/index.html", "/jsconfig.json"} <= set(texts)
    assert {f"/{file.name}" for file in shared} <= set(texts)
    text = b"".join(texts[target] for target in sorted(texts))
    assert 0 < len(text) <= 150_000
    assert len(zlib.compress(text, 9)) <= 50_000


@pytest.mark.parametrize(
    "target",
    [
        *("/..", "/../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd"),
        *("/main.js/..", "/.git/config", "/api", "/api/v2/RunService.ListRuns"),
        *("http://evil.example/", "/main.js?x", "*", "/\\..\\main.js"),
    ],
)
def test_nothing_but_the_page_is_served(web: Web, target: str) -> None:
    assert web.request("GET", target).status in (400, 404)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer " + "0" * 32}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Host": "localhost:1"}, 200),
    ],
)
def test_calls_need_the_token_and_this_page(
    web: Web, fields: dict[str, str | None], status: int
) -> None:
    response = web.request("POST", "/api/v1/RunService.ListRuns", "{}", **fields)
    assert response.status == status
    # No other page may read an answer.
    assert "Access-Control-Allow-Origin" not in response.headers


def test_a_proxy_needs_its_name(daemon: Daemon) -> None:
    with serving(daemon, "--allow-host", "jupyter.example") as web:
        assert web.request("GET", "/", Host="Jupyter.example:443").status == 200
        assert web.request("GET", "/", Host="evil.example").status == 421


def test_methods_answer_as_msitctl_does(web: Web, daemon: Daemon) -> None:
    runs = web.call("RunService.ListRuns")
    assert runs["runs"] == daemon.ctl_json("run", "list")["runs"]
    assert runs["next_page_token"] == ""
    comparison = web.call("ComparisonService.GetComparison", {"comparison": "c-000001"})
    assert comparison == daemon.ctl_json("compare", "get", "c-000001")
    first = web.call(
        "ComparisonService.ListComparisonRows",
        {"comparison": "c-000001", "page_size": 3},
    )
    second = web.call(
        "ComparisonService.ListComparisonRows",
        {
            "comparison": "c-000001",
            "page_size": 3,
            "page_token": first["next_page_token"],
        },
    )
    assert [row["row"] for row in first["rows"] + second["rows"]] == list("012345")


def test_errors_name_the_reason(web: Web) -> None:
    error = web.call("RunService.GetRun", {"run": "none"}, expect=404)
    assert error["reason"] == "RUN_NOT_FOUND"
    assert "none" in error["error"]
    for name, status in [("RunService.DeleteRun", 404), ("none", 404)]:
        web.call(name, {"run": "golden"}, expect=status)
    for body in ("", "{", "[]", "7", '{"none":1}', "\0", "[" * 60_000):
        response = web.request("POST", "/api/v1/RunService.ListRuns", body)
        assert response.status == 400, body[:20]


def test_the_texts_of_a_comparison_are_those_of_msitctl(
    web: Web, daemon: Daemon
) -> None:
    page = web.call("page.comparison", {"comparison": "c-000001"})
    header = daemon.ctl("compare", "get", "c-000001").stdout
    assert " ".join(page["title"].split()) in " ".join(header.split())
    assert page["verdict"] == "FAIL"
    labels = [fact[0] for fact in page["findings"]]
    assert "first divergence" in labels
    assert page["findings"][labels.index("first divergence")][2] == FAILING[0]
    (listed,) = web.call("page.comparisons")["comparisons"]
    assert listed["title"] == page["title"]
    assert listed["fail_count"] == len(FAILING)


def test_rows_have_words_and_shares_of_bounds(web: Web) -> None:
    rows = web.call("page.rows", {"comparison": "c-000001"})["rows"]
    assert [row["row"] for row in rows] == list(range(ROWS))
    assert [row["row"] for row in rows if row["verdict"] == "fail"] == FAILING
    assert all(row["share"] > 1 for row in rows if row["verdict"] == "fail")
    assert rows[3]["op"] == f"layers.1.{MARKUP}"
    failing = web.call(
        "page.rows",
        {"comparison": "c-000001", "verdicts": ["FAIL"], "op_patterns": ["*mlp*"]},
    )
    assert [row["row"] for row in failing["rows"]] == [2, 7]


def test_a_row_has_histograms_and_stacks(web: Web) -> None:
    page = web.call("page.row", {"comparison": "c-000001", "rows": [2]})
    assert page["row"]["op"] == "layers.0.mlp"
    for side in ("golden", "target"):
        assert page[side]["tensor"]["stack"].startswith("model.py:2 forward")
        assert sum(map(int, page[side]["histogram"]["counts"])) == 64
    web.call("page.row", {"comparison": "c-000001", "rows": [99]}, expect=404)
    web.call("page.row", {"comparison": "c-000001"}, expect=400)


def test_rows_remain_after_their_runs(web: Web, daemon: Daemon) -> None:
    daemon.ctl("run", "delete", "golden", "--yes")
    page = web.call("page.row", {"comparison": "c-000001", "rows": [2]})
    assert page["row"]["verdict"] == "fail"
    assert page["golden"] == {"tensor": None, "histogram": None}
    assert page["note"]


def test_groups_are_compact_and_continue_at_any_row(web: Web, daemon: Daemon) -> None:
    request = {"comparison": "c-000001", "group_by": ["OP", "TOKEN"]}
    whole = web.call("page.groups", request)
    assert whole["next_row"] == whole["row_count"] == ROWS
    assert whole["has_ended"] is True
    assert len(whole["groups"]) == ROWS
    failing = [g for g in whole["groups"] if g[4]]
    assert [g[8] for g in failing] == FAILING
    assert all(g[7] > 1 for g in failing)
    assert whole["ops"][3] == f"layers.1.{MARKUP}"
    rest = web.call("page.groups", {**request, "first_row": 4})
    assert [g[8] for g in rest["groups"]] == list(range(4, ROWS))
    by_rank = web.call("page.groups", {**request, "group_by": ["RANK"]})
    assert [g[:7] for g in by_rank["groups"]] == [[0, 0, 0, 4, 6, 0, 0]]
    for bad in ({"value": "none"}, {"first_row": -1}, {"group_by": ["OP", "OP"]}):
        web.call("page.groups", {**request, **bad}, expect=400)
    # msitctl prints the same.
    groups = daemon.ctl_json("compare", "stats", "c-000001", "--by", "op")["groups"]
    assert [(g["op"], g["fail_count"], g["worst_row"]) for g in groups] == [
        ("embed", "0", "0"),
        ("layers.0.attn", "0", "1"),
        ("layers.0.mlp", "2", "2"),
        (f"layers.1.{MARKUP}", "2", "3"),
        ("head", "2", "4"),
    ]
    # So does Python.
    listed = query.connect(daemon.endpoint).comparisons.groups("latest", by="op")
    assert [(g.op, str(g.fail_count), str(g.worst_row)) for g in listed] == [
        (g["op"], g["fail_count"], g["worst_row"]) for g in groups
    ]
    text = daemon.ctl("compare", "stats", "c-000001", "--value", "max_abs").stdout
    heads, values = (line.split() for line in text.splitlines())
    wanted = {"pass": "4", "fail": "6", "unmatched": "0", "worst": "10", "row": "4"}
    assert wanted.items() <= dict(zip(heads, values, strict=True)).items()
    error = daemon.ctl("compare", "stats", "c-000001", "--value", "none", expect=67)
    assert "no metric of this name" in error.stderr


def stream(web: Web, body: object) -> list[dict[str, object]]:
    """Reads all lines of page.stream."""
    response = web.request("POST", "/api/v1/page.stream", json.dumps(body))
    assert response.status == 200
    return [json.loads(line) for line in response.read().split(b"\n") if line]


def test_a_stream_has_the_selected_rows_once(web: Web) -> None:
    lines = stream(web, {"comparison": "c-000001", "verdicts": ["FAIL"]})
    rows = [row["row"] for line in lines for row in line["rows"]]  # type: ignore
    assert rows == FAILING
    assert lines[-1]["state"] == "done"
    assert lines[-1]["next_row"] == ROWS
    assert lines[-1]["counts"] == [ROWS - len(FAILING), len(FAILING), 0, 0]
    rest = stream(web, {"comparison": "c-000001", "first_row": 4})
    assert [row["row"] for line in rest for row in line["rows"]] == list(  # type: ignore
        range(4, ROWS)
    )


def test_a_comparison_is_started_with_the_role_of_the_user(web: Web) -> None:
    started = web.call(
        "ComparisonService.CreateComparison",
        {"comparison": {"golden_run": "golden", "target_run": "golden"}},
    )
    assert started["name"] == "c-000002"


def test_a_reader_cannot_change_a_policy(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.start("--loopback-role", "reader")
    with serving(daemon) as web:
        error = web.call("CaptureService.SetCapturePolicy", {"run": "r"}, expect=403)
    assert error["reason"] == "ROLE_REFUSED"


def test_a_daemon_that_restarts_is_found_again(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    daemon.start()
    compared(daemon)
    endpoint = f"unix:{daemon.socket_dir}/msitd.sock"
    web = Web(
        {"MSITD_ENDPOINT": endpoint},
        "web",
        "--listen",
        "127.0.0.1:0",
        "--allow-host",
        "h",
    )
    try:
        assert len(web.call("RunService.ListRuns")["runs"]) == 2
        daemon.kill()
        assert "error" in web.call("RunService.ListRuns", expect=503)
        daemon.start()
        deadline = time.monotonic() + NO_LIMIT_S
        while True:
            response = web.request("POST", "/api/v1/RunService.ListRuns", "{}")
            if response.status == 200:
                break
            assert time.monotonic() < deadline, response.read()
            time.sleep(0.1)
        assert len(json.loads(response.read())["runs"]) == 2
        assert web.stop() == 0
    finally:
        web.process.kill()
        web.process.communicate()


def test_several_daemons_are_one_page(new_daemon: Callable[[], Daemon]) -> None:
    daemons = [new_daemon(), new_daemon()]
    for daemon in daemons:
        daemon.start()
    compared(daemons[0])
    endpoints = ",".join(daemon.endpoint for daemon in daemons)
    web = Web({}, "--endpoints", endpoints, "web", "--listen", "127.0.0.1:0")
    try:
        answer = web.call("RunService.ListRuns", {"page_size": 1})
        assert [run["name"] for run in answer["runs"]] == ["golden"]
        assert answer["next_page_token"] == "1"
        answer = web.call("RunService.ListRuns", {"page_token": "1"})
        assert [run["name"] for run in answer["runs"]] == ["target"]
        assert "nodes_failed" not in answer
        for token in ("x", "-1", "1.5", "99999999999999999999"):
            web.call("RunService.ListRuns", {"page_token": token}, expect=400)
        (comparison,) = web.call("page.comparisons")["comparisons"]
        page = web.call("page.comparison", {"comparison": comparison["name"]})
        assert page["verdict"] == "FAIL"
        rows = web.call("page.rows", {"comparison": comparison["name"]})
        assert len(rows["rows"]) == ROWS
        # Each daemon has its own numbers of rows.
        one = {"comparison": comparison["name"]}
        web.call("page.row", {**one, "rows": [2]}, expect=501)
        error = web.call("page.groups", {**one, "group_by": ["OP"]}, expect=501)
        assert error["error"].endswith("are not reduced to groups")
        daemons[1].kill()
        for name, request in (
            ("RunService.ListRuns", {}),
            ("page.comparisons", {}),
            ("page.comparison", one),
            ("page.rows", one),
        ):
            answer = web.call(name, request)
            (failed,) = answer["nodes_failed"]
            assert failed["node"] == endpoints.split(",")[1], name
    finally:
        web.process.kill()
        web.process.communicate()


def test_ctrl_c_ends_it_during_a_stream(daemon: Daemon) -> None:
    compared(daemon)
    daemon.ctl("run", "delete", "target", "--yes")
    with serving(daemon) as web:
        sockets = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(3)]
        sockets[0].sendall(b"GET / HT")
        assert web.stop() == 0
        for one in sockets:
            one.close()


def test_only_this_machine_is_served(daemon: Daemon) -> None:
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.org:80"):
        error = daemon.ctl("web", "--listen", address, expect=2).stderr
        assert "this machine only" in error and "ssh -L" in error
    for address in ("127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:-1"):
        assert "--listen" in daemon.ctl("web", "--listen", address, expect=2).stderr
    with serving(daemon) as web:
        error = daemon.ctl("web", "--listen", f"127.0.0.1:{web.port}", expect=3).stderr
        assert "Address already in use" in error


def test_the_browser_is_given_no_secret_argument(
    daemon: Daemon, tmp_path: Path
) -> None:
    opener = tmp_path / "xdg-open"
    opener.write_text(
        f'#!/bin/sh\necho "$1" >{tmp_path}/argument\ncp "$1" {tmp_path}/page\n'
    )
    opener.chmod(0o755)
    (tmp_path / "runtime").mkdir()
    web = Web(
        {
            "MSITD_ENDPOINT": daemon.endpoint,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "XDG_RUNTIME_DIR": str(tmp_path / "runtime"),
        },
        *("web", "--listen", "127.0.0.1:0", "--open"),
    )
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not (tmp_path / "page").exists() or not (tmp_path / "page").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert web.token not in (tmp_path / "argument").read_text()
        assert web.url in (tmp_path / "page").read_text()
        file = Path((tmp_path / "argument").read_text().strip())
        assert file.stat().st_mode & 0o077 == 0
        assert web.stop() == 0
        assert not file.exists()
    finally:
        web.process.kill()
        web.process.communicate()


def test_the_binary_has_no_other_listener(daemon: Daemon) -> None:
    """The page is on one loopback address only."""
    with serving(daemon) as web:
        inodes = {
            os.readlink(f"/proc/{web.process.pid}/fd/{fd}")
            for fd in os.listdir(f"/proc/{web.process.pid}/fd")
            if os.path.islink(f"/proc/{web.process.pid}/fd/{fd}")
        }
        listening = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                    listening.append(words[1])
        assert listening == [f"0100007F:{web.port:04X}"], BIN_DIR
