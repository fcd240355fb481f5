"""Alert rules and the dashboard use existing metrics of msitd, with their labels."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
ROW = re.compile(
    r"^\| `(\w+)` \| (counter|gauge|histogram) \| (?:`(\w+)` )?\| ", re.MULTILINE
)
# Words of PromQL, and labels that Prometheus adds.
LABELS_OF_SCRAPE = {"instance", "job", "le"}
SELECTOR = re.compile(r"\b((?:msitd|process)_\w+)(?:\{([^}]*)\})?")


def known() -> dict[str, set[str]]:
    """Returns every name that may be used in a query, with its labels."""
    out = {}
    for name, kind, label in ROW.findall((ROOT / "docs/monitoring.md").read_text()):
        labels = LABELS_OF_SCRAPE | ({label} if label else set())
        ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        for end in ends:
            out[name + end] = labels
    return out


def findings(query: str) -> list[str]:
    """Returns the errors in a query."""
    metrics = known()
    out = []
    for name, selector in SELECTOR.findall(query):
        if name not in metrics:
            out.append(f"{name} is no metric")
            continue
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector):
            if label not in metrics[name]:
                out.append(f"{name} has no label {label}")
    if not SELECTOR.search(query) and 'up{job="msitd"}' not in query:
        out.append(f"{query} asks for nothing of msitd")
    return out


def rules() -> list[dict]:
    document = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def test_findings_are_found() -> None:
    assert len(known()) > 40
    assert findings("msitd_open_streams > 1") == []
    assert findings("msitd_open_streamz > 1")
    assert findings('msitd_open_streams{pool="x"}')
    assert findings("rate(msitd_ack_seconds[5m])")
    assert findings("1 > 0")


def test_alert_rules_are_whole() -> None:
    told = set(
        re.findall(
            r"^\| `(Msitd\w+)` \|",
            (ROOT / "docs/monitoring.md").read_text(),
            re.MULTILINE,
        )
    )
    names = [rule["alert"] for rule in rules()]
    assert sorted(names) == sorted(told)
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        page, anchor = rule["annotations"]["runbook_url"].split("#")
        assert f'<a id="{anchor}"></a>' in (ROOT / page).read_text()
        assert findings(rule["expr"]) == []
        for open_, close in ("()", "[]", "{}"):
            assert rule["expr"].count(open_) == rule["expr"].count(close)


def series(name: str, values: str) -> dict[str, str]:
    """A series of one daemon, as promtool writes its values."""
    return {"series": f'{name}{{instance="n",job="msitd"}}', "values": values}


def fills(end: str, kept: str, **limits: int) -> dict:
    """A test of promtool: a disk of 100 GB loses 1 GB a minute, and ends with `end`.
    `kept` is how often it does so.
    """
    disk = f"100000000000-1000000000x{kept} {end}"
    more = [series(name, f"{value}x500") for name, value in limits.items()]
    return {
        "interval": "1m",
        "input_series": [series("msitd_disk_free_bytes", disk), *more],
    }


def alert(at: str, fires: bool) -> dict:
    """Whether the alert on the disk fires at a time."""
    labels = {"severity": "warning", "instance": "n", "job": "msitd"}
    annotations = {
        "summary": "The disk of n will be full within four hours",
        "runbook_url": "docs/monitoring.md#msitddiskfillsup",
    }
    one = {"exp_labels": labels, "exp_annotations": annotations}
    return {
        "eval_time": at,
        "alertname": "MsitdDiskFillsUp",
        "exp_alerts": [one] if fires else [],
    }


def limits(free_min: int, excess: int = 0, failing: int = 0) -> dict[str, int]:
    return {
        "msitd_disk_free_min_bytes": free_min,
        "msitd_excess_bytes": excess,
        "msitd_retention_failing": failing,
    }


def expiry(days: int, fires: bool) -> dict:
    """Whether the alert on a certificate fires that is valid for some days."""
    name = "msitd_certificate_expiry_time_seconds"
    rules_of = [series(name, f"{days * 86400}x200")]
    asked = 'ALERTS{alertname="MsitdCertificateExpires",alertstate="firing"}'
    labels = (
        'ALERTS{alertname="MsitdCertificateExpires",alertstate="firing",'
        'instance="n",job="msitd",severity="warning"}'
    )
    found = [{"labels": labels, "value": 1}] if fires else []
    test = {"expr": asked, "eval_time": "2h", "exp_samples": found}
    return {"interval": "1m", "input_series": rules_of, "promql_expr_test": [test]}


def test_alerts_fire_only_when_somebody_must_act(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool (Debian package prometheus)")
    falling = {**fills("", "90"), "alert_rule_test": [alert("80m", fires=True)]}
    # The disk stays at 40 GB. An hour later, only the long range still falls.
    level = {
        **fills("40000000000x120", "60"),
        "alert_rule_test": [alert("55m", fires=True), alert("85m", fires=False)],
    }
    kept, pinned, failing = (
        {**fills("", "90", **limit), "alert_rule_test": [alert("80m", fires=fires)]}
        for limit, fires in (
            (limits(20_000_000_000), False),
            (limits(20_000_000_000, excess=1), True),
            (limits(20_000_000_000, failing=1), True),
        )
    )
    unlimited = {
        **fills("", "90", **limits(0)),
        "alert_rule_test": [alert("80m", True)],
    }
    tests = [falling, level, kept, pinned, failing, unlimited]
    tests += [expiry(10, fires=True), expiry(30, fires=False)]
    document = {"rule_files": [str(FOLDER / "alerts.yaml")], "tests": tests}
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checked = subprocess.run(
        [promtool, "check", "rules", FOLDER / "alerts.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    for panel in panels:
        assert panel["title"] and panel["targets"]
        for target in panel["targets"]:
            query = target["expr"]
            assert findings(query) == []
            used = set(re.findall(r"\$(\w+)", query)) - {"__rate_interval"}
            assert used <= variables
            assert query.count("(") == query.count(")")


def test_every_metric_that_tells_of_trouble_has_an_alert() -> None:
    asked = " ".join(rule["expr"] for rule in rules())
    for name in known():
        if name.endswith(("_failing", "_findings")) or "false" in name:
            assert name in asked
