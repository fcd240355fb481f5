"""Alert rules and the dashboard use existing metrics of msitd, with their labels."""

import json
import re
from pathlib import Path

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
        assert findings(rule["expr"]) == []
        for open_, close in ("()", "[]", "{}"):
            assert rule["expr"].count(open_) == rule["expr"].count(close)


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
