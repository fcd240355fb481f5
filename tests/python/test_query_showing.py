"""Objects and lists of msitd.query in an interpreter and in a notebook."""

import dataclasses
from collections.abc import Iterator
from datetime import datetime, timezone
from html.parser import HTMLParser
from typing import Any

import grpc
import pytest
from fake_queries import FakeQueries, fail
from msitd import query
from msitd.query import messages
from msitd.query.messages import from_message, message_class, new
from msitd.query.text import human_duration, human_size, printable, shorten

LIST_RUNS = "RunService/ListRuns"
LIST_ROWS = "ComparisonService/ListComparisonRows"
ALLOWED_TAGS = {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
MARKUP = "<script>alert('x')</script>\"onload=y&amp;\x1b[31m$x$"


@pytest.fixture
def fake() -> Iterator[FakeQueries]:
    fake = FakeQueries()
    fake.answer(
        "NodeService/GetCapabilities",
        lambda *_: new(
            "Capabilities",
            metrics=["cosine", "max_abs", "pearson", "psnr_db"],
            metric_table=[
                metric("cosine", "fused", True),
                metric("max_abs", "fused", True),
                metric("pearson", "element", False),
                metric("psnr_db", "derived", False),
            ],
        ),
    )
    yield fake
    fake.stop()


@pytest.fixture
def daemon(fake: FakeQueries) -> Iterator[query.Connection]:
    with query.connect(fake.endpoint) as daemon:
        yield daemon


def metric(name: str, family: str, in_default_columns: bool) -> Any:
    return new(
        "Metric", name=name, family=family, in_default_columns=in_default_columns
    )


def row(number: int, **fields: Any) -> Any:
    made = new(
        "ComparisonRow",
        **{"row": number, "op": f"op{number}", "io": "output", "index": "0"}
        | {"verdict": "fail", "reason": "why"}
        | fields,
    )
    made.metrics.add(metric="cosine", value=0.5)
    return made


def answer_rows(fake: FakeQueries, rows: list[Any]) -> None:
    def list_rows(request: Any, context: grpc.ServicerContext) -> Any:
        first = int(request.page_token or 0)
        last = first + request.page_size
        token = str(last) if last < len(rows) else ""
        return new(
            "ListComparisonRowsResponse", rows=rows[first:last], next_page_token=token
        )

    fake.answer(LIST_ROWS, list_rows)


class Tags(HTMLParser):
    """Collects the tags, the attributes and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def check_inert(page: str) -> Tags:
    """Checks that a page has only markup that is ours."""
    found = Tags(page)
    assert found.tags <= ALLOWED_TAGS
    assert found.attributes <= {"class", "style"}
    assert "\x1b" not in page
    # A notebook typesets no names as formulas.
    assert page.startswith('<div class="tex2jax_ignore mathjax_ignore">')
    return found


@pytest.mark.parametrize(("message", "mirror"), messages.mirrored().items())
def test_no_object_fills_the_screen(message: str, mirror: type) -> None:
    """Even if each text is long, and each list has a thousand elements."""
    value = from_message(filled(message_class(message)(), depth=3))
    text = repr(value)
    assert text.lstrip("<").startswith(mirror.__name__) or "\n<Comparison" in text
    assert text.count("\n") <= 2
    if hasattr(value, "_repr_html_"):
        assert len(text) < 2500
        assert len(check_inert(value._repr_html_()).text) < 10000


def filled(message: Any, depth: int) -> Any:
    """Sets every field of a message."""
    for field in message.DESCRIPTOR.fields:
        is_map = field.message_type and field.message_type.GetOptions().map_entry
        repeated = messages._is_repeated(field)
        count = 1000 if repeated and field.message_type is None else 2
        for number in range(count if repeated else 1):
            if is_map:
                getattr(message, field.name)[f"{MARKUP}{number}"] = MARKUP
            elif field.message_type is not None:
                if depth == 0:
                    continue
                child = getattr(message, field.name)
                child = child.add() if repeated else child
                child.SetInParent()
                filled(child, depth - 1)
            else:
                value: Any = 1
                if field.cpp_type == field.CPPTYPE_STRING:
                    value = 100 * MARKUP
                if repeated:
                    getattr(message, field.name).append(value)
                else:
                    setattr(message, field.name, value)
    return message


def test_an_object_shows_what_its_table_has() -> None:
    run = query.Run(
        name="golden",
        world_size=2,
        state="active",
        create_time=datetime(2026, 1, 2, tzinfo=timezone.utc),
        counters=query.RunCounters(tensor_count=8, size_bytes=1536, dropped_count=3),
        labels={"model": "llama", "b": "c"},
    )
    assert repr(run) == (
        "<Run name=golden, state=active, world_size=2, tensors=8, size=1.5 KiB, "
        "dropped=3, create_time=2026-01-02T00:00:00Z, labels=b: c; model: llama>"
    )
    assert dataclasses.asdict(run)["counters"]["conflict_count"] == 0


def test_an_object_without_a_table_shows_what_is_not_the_default() -> None:
    rule = query.Rule("*.norm", rtol=1e-3)
    assert repr(rule) == "Rule(op_pattern='*.norm', rtol=0.001)"
    assert eval(repr(rule), {"Rule": query.Rule}) == rule
    many = query.TensorFilter(ranks=tuple(range(4096)))
    assert repr(many) == "TensorFilter(ranks=(0, 1, 2, 3, 4, 5, 6, 7, … 4096 in all))"


def test_results_with_groups_are_tables() -> None:
    groups = tuple(query.StatsGroup(f"{i}{MARKUP}", i, 0, None) for i in range(30))
    stats = query.Stats(
        groups, (), (query.RankRange(1, 1), query.RankRange(3, 5)), True
    )
    assert "30 in all" in repr(stats) and len(repr(stats)) < 500
    page = stats._repr_html_()  # type: ignore[attr-defined]
    text = check_inert(page).text
    assert page.count("<tr>") == 21
    assert "20 of 30 rows are shown (10 more)" in text
    assert text.endswith("partial: the run lacks ranks 1,3-5")


def test_a_row_shows_its_metrics() -> None:
    value = from_message(
        row(7, custom_metrics=[new("CustomMetric", metric="angle", value=7.0)])
    )
    assert repr(value) == (
        "<ComparisonRow row=7, token=0, rank=0, op=op7, io/index=output/0, "
        "verdict=fail, cosine=0.5, angle=7, reason=why>"
    )


def test_foreign_text_is_inert() -> None:
    for value in (
        query.Run(name=MARKUP, labels={MARKUP: MARKUP}),
        from_message(row(0, op=MARKUP, reason=MARKUP)),
        query.Comparison(
            golden_run=MARKUP,
            target_run=MARKUP,
            state="done",
            fail_count=1,
            first_divergence=from_message(row(0, op=MARKUP)),
        ),
    ):
        assert "\x1b" not in repr(value)
        page = value._repr_html_()  # type: ignore[attr-defined]
        assert "<script>alert('x')</script>" in check_inert(page).text


def test_a_comparison_has_its_sentence_and_its_first_divergence() -> None:
    comparison = query.Comparison(
        name="c-000001",
        golden_run="good",
        target_run="bad",
        state="done",
        pass_count=1,
        fail_count=1,
        first_divergence=from_message(row(4)),
    )
    text = check_inert(comparison._repr_html_()).text  # type: ignore[attr-defined]
    assert text.startswith("bad differs from good from op4 on (rank 0, token 0)")
    assert "first divergence:" in text


@pytest.mark.parametrize(
    ("count", "shown", "note"),
    [
        (0, 0, "no rows"),
        (20, 20, ""),
        (21, 20, "20 of 21 rows are shown (1 more)"),
        (2500, 20, "20 of at least 1000 rows are shown (980 more)"),
    ],
)
def test_a_list_shows_its_first_rows(
    fake: FakeQueries, daemon: query.Connection, count: int, shown: int, note: str
) -> None:
    answer_rows(fake, [row(number, op=MARKUP) for number in range(count)])
    listing = daemon.comparisons.rows("c-000001")
    assert "RowListing of ComparisonRow" in repr(listing)
    assert fake.requests == []
    page = listing._repr_html_()
    found = check_inert(page)
    assert found.text.endswith(note)
    assert page.count("<tr>") == (shown + 1 if count else 0)
    pages = [r for r in fake.requests if "page_token" in r.DESCRIPTOR.fields_by_name]
    assert len(pages) == 1


def test_lists_of_several_daemons_are_shown_too(fake: FakeQueries) -> None:
    runs = [new("Run", name=MARKUP)]
    fake.answer(LIST_RUNS, lambda *_: new("ListRunsResponse", runs=runs))
    with query.connect_fleet(fake.endpoint) as fleet:
        listing = fleet.runs.list()
        assert repr(listing).startswith("<FleetListing of Run: ")
        assert "alert" in check_inert(listing._repr_html_()).text
        assert listing.to_pandas()["name"].tolist() == [MARKUP]
        assert "counters.tensor_count" in listing.to_pandas(all_columns=True)


def test_a_list_that_cannot_be_read_says_why(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    def refuse(request: Any, context: grpc.ServicerContext) -> None:
        fail(context, grpc.StatusCode.INTERNAL, "", "<b>no</b>")

    fake.answer(LIST_RUNS, refuse)
    text = check_inert(daemon.runs.list()._repr_html_()).text
    assert text == "The list could not be read: INTERNAL: <b>no</b>"


TABLE = ["row", "token", "rank", "op", "call", "io/index", "dtype", "shape", "verdict"]


def sides(golden: Any, target: Any) -> dict[str, Any]:
    return {
        name: new("ComparedTensor", dtype=dtype, shape=shape)
        for name, (dtype, shape) in (("golden", golden), ("target", target))
        if dtype
    }


def test_a_table_has_the_columns_of_msitctl(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    float32, bfloat16 = ("float32", (2, 3)), ("bfloat16", (2, 3))
    rows = [
        row(0, **sides(float32, bfloat16)),
        row(1, **sides(float32, (None, ()))),
        row(2),
    ]
    answer_rows(fake, rows)
    listing = daemon.comparisons.rows("c-000001")
    frame = listing.to_pandas()
    assert list(frame.columns) == [*TABLE, "cosine", "max_abs", "reason"]
    assert frame["dtype"].tolist() == ["float32/bfloat16", "float32/-", None]
    assert frame["shape"].tolist() == ["2,3", "2,3/-", None]
    assert frame["io/index"].tolist() == ["output/0"] * 3
    assert frame["cosine"].tolist() == [0.5] * 3
    assert listing.to_arrow().column_names == list(frame.columns)

    rows[2].metrics.add(metric="pearson", value=0.0)
    rows[1].custom_metrics.add(metric="angle", value=7.0)
    columns = [*TABLE, "cosine", "max_abs", "pearson", "angle", "reason"]
    assert list(listing.to_pandas().columns) == columns


def test_all_columns_are_there_on_request(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    answer_rows(fake, [row(0)])
    listing = daemon.comparisons.rows("c-000001")
    frame = listing.to_pandas(all_columns=True)
    assert {"golden.dtype", "metrics.psnr_db", "io"} <= set(frame.columns)
    assert listing.to_arrow(all_columns=True).column_names == list(frame.columns)


def test_columns_that_no_row_needs_are_absent(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    runs = [new("Run", name="r"), new("Run", name="s")]
    fake.answer(LIST_RUNS, lambda *_: new("ListRunsResponse", runs=runs))
    assert "archive" not in daemon.runs.list().to_pandas().columns
    runs[1] = new("Run", name="s", archive=query.RunArchive(state="archived"))
    frame = daemon.runs.list().to_pandas()
    assert frame["archive"].tolist() == [None, "archived"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\n\r\x00\x7f", r"a\tb\n\r\x00\x7f"),
        ("\u202e\u200b\u2028", r"\u{202e}\u{200b}\u{2028}"),
        ("é中e\u0301 x", "é中e\u0301 x"),
    ],
)
def test_texts_are_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_numbers_are_those_of_msitctl() -> None:
    sizes = (0, 1023, 1536, 1 << 20, (1 << 20) - 1, 20 << 30)
    shown = ["0 B", "1023 B", "1.5 KiB", "1 MiB", "1 MiB", "20 GiB"]
    assert [human_size(size) for size in sizes] == shown
    seconds = (0.25, 42, 187, 7205, 262800)
    shown = ["0.25s", "42s", "3m07s", "2h00m05s", "3d01h"]
    assert [human_duration(each) for each in seconds] == shown
    assert shorten("abcdefghij", 5) == "ab…ij"
