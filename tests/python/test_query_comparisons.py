"""The names and the reports of comparisons in msitd.query."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import msitd
import pytest
from fake_queries import FakeQueries
from msitd import query
from msitd.query import reporting
from msitd.query.messages import new

GET = "ComparisonService/GetComparison"
LIST = "ComparisonService/ListComparisons"


@pytest.fixture
def fake() -> Iterator[FakeQueries]:
    fake = FakeQueries()

    def get(request: Any, context: grpc.ServicerContext) -> Any:
        return new("Comparison", name=request.comparison)

    fake.answer(GET, get)
    yield fake
    fake.stop()


@pytest.fixture
def daemon(fake: FakeQueries) -> Iterator[query.Connection]:
    with query.connect(fake.endpoint) as daemon:
        yield daemon


def answer_list(fake: FakeQueries, *names: str) -> None:
    comparisons = [new("Comparison", name=name) for name in names]
    response = new("ListComparisonsResponse", comparisons=comparisons)
    fake.answer(LIST, lambda *_: response)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("c-9", "c-000009"),
        ("c-0000009", "c-0000009"),
        ("c-000012", "c-000012"),
        ("c-x", "c-x"),
        ("c-", "c-"),
        ("c-\u0669", "c-\u0669"),
        ("-0", "-0"),
        ("latest", "c-000003"),
        ("-1", "c-000003"),
        (-1, "c-000003"),
        (-2, "c-000002"),
        (-3, "c-000001"),
    ],
)
def test_names_are_those_of_msitctl(
    fake: FakeQueries, daemon: query.Connection, given: Any, name: str
) -> None:
    answer_list(fake, "c-000001", "c-000002", "c-000003")
    assert daemon.comparisons.get(given).name == name


def test_only_names_that_count_from_the_newest_are_looked_up(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    daemon.comparisons.get("c-9")
    assert len(fake.requests) == 1


def test_there_may_be_too_few(fake: FakeQueries, daemon: query.Connection) -> None:
    answer_list(fake, "c-000001")
    with pytest.raises(query.QueryError, match="only 1 comparisons") as caught:
        daemon.comparisons.get(-2)
    assert caught.value.code == "NOT_FOUND"
    answer_list(fake)
    with pytest.raises(query.QueryError, match="there is no comparison yet"):
        daemon.comparisons.rows("latest")
    with pytest.raises(ValueError, match="more than 1000 back"):
        daemon.comparisons.get(-1001)


Program = Callable[[str], None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Installs a program in place of msitctl that writes down its call."""

    def install(then: str) -> None:
        file = tmp_path / "msitctl"
        file.write_text(
            f"#!{sys.executable}\nimport json, os, sys, time\n"
            f"with open({str(tmp_path / 'call')!r}, 'w') as out:\n"
            f"    json.dump([sys.argv[1:], dict(os.environ)], out)\n{then}\n"
        )
        file.chmod(0o755)
        monkeypatch.setattr(reporting, "find_program", lambda name: str(file))

    return install


def test_a_report_asks_the_same_daemon(
    program: Program,
    fake: FakeQueries,
    daemon: query.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MSITCTL_ENDPOINTS", "other:1")
    monkeypatch.setenv("MSITCTL_TLS", "1")
    monkeypatch.chdir(tmp_path)
    program("")
    daemon = query.connect(fake.endpoint, tls=False)
    daemon.comparisons.report(
        "c-9",
        "-o.html",
        "html",
        verdicts=["fail", "unmatched"],
        histograms=0,
        rules="rules.yaml",
        compat=True,
        colors=True,
    )
    words, environment = json.loads((tmp_path / "call").read_text())
    assert words == [
        *("compare", "report", "c-000009", f"--out={tmp_path}/-o.html"),
        *("--format=html", "--verdict=fail,unmatched", "--histograms=0"),
        *(f"--rules={tmp_path}/rules.yaml", "--compat", "--colors"),
    ]
    assert {k: v for k, v in environment.items() if k.startswith("MSITCTL_")} == {
        "MSITCTL_ENDPOINT": fake.endpoint
    }


def test_a_report_uses_the_files_of_the_connection(tmp_path: Path) -> None:
    settings = query.connection.Settings("a:1", None, "ca", "cert", "key")
    environment = reporting.environment_of(settings)
    assert {k: v for k, v in environment.items() if k.startswith("MSITCTL_")} == {
        "MSITCTL_ENDPOINT": "a:1",
        "MSITCTL_TLS": "1",
        "MSITCTL_CA_FILE": "ca",
        "MSITCTL_CERT_FILE": "cert",
        "MSITCTL_KEY_FILE": "key",
    }
    settings = query.connection.Settings("1.2.3.4:1", True, "", "", "", "node7")
    with pytest.raises(ValueError, match="node7:PORT"):
        reporting.environment_of(settings)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (1, msitd.MsitError),
        (2, ValueError),
        (3, OSError),
        (64 + 5, query.QueryError),
        (130, query.QueryError),
    ],
)
def test_a_report_that_fails_raises(
    program: Program, daemon: query.Connection, code: int, error: type[Exception]
) -> None:
    program(f"print('msitctl: why', file=sys.stderr); sys.exit({code})")
    with pytest.raises(error, match="why") as caught:
        daemon.comparisons.report("c-9", "x.html")
    if code == 64 + 5:
        assert isinstance(caught.value, query.QueryError)
        assert caught.value.code == "NOT_FOUND"


def test_a_partial_report_warns(program: Program, daemon: query.Connection) -> None:
    program("print('msitctl: partial: golden', file=sys.stderr); sys.exit(4)")
    with pytest.warns(UserWarning, match="partial: golden"):
        daemon.comparisons.report("c-9", "x.html")


def test_a_report_ends_with_its_timeout(
    program: Program, daemon: query.Connection
) -> None:
    program("time.sleep(60)")
    with pytest.raises(query.QueryError, match="DEADLINE_EXCEEDED"):
        daemon.comparisons.report("c-9", "x.html", timeout=0.3)


def test_a_report_needs_msitctl(
    daemon: query.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="there is no msitctl, neither in"):
        daemon.comparisons.report("c-9", "x.html")
