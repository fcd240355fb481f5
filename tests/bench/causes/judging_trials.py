"""Asks the commands of msitctl about recorded trials, and judges the answers."""

import dataclasses
import fnmatch
import json
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msitd.query
from anatomy import Truth
from judging import ABOVE_NOISE
from msitd.verify.records import CALL_KINDS
from recording_trials import Recorded, Recorder, record_ranks
from seeding import Mistake
from trials import Trial
from verdicts import Positions, header, names, spans

from daemon import Daemon

RIGHT, WRONG, NONE = "right", "wrong", "none"
# The command was not run.
NOT_ASKED = "not asked"
BLAMED = ("OP", "WEIGHT", "OWN_CODE")
_WRONG_LINE = re.compile(
    r"^wrong by itself +(?P<op>\S+) call (?P<call>\d+)(?: in \S+)?, "
    r"(?P<io>\w+)/(?P<index>[^,]+), rank (?P<rank>\d+), token (?P<token>\d+)",
    re.MULTILINE,
)
UNLIKE_LINE = re.compile(
    r"^unlike siblings +(?P<code>code of )?(?P<op>\S+)(?: call (?P<call>\d+))?"
    r"(?: in \S+)?(?: after (?P<after>\S+))?(?: before (?P<before>\S+?))?"
    r"(?:, (?P<io>\w+)/(?P<index>[^,]+))?, rank (?P<rank>\d+)"
    r"(?:, token (?P<token>\d+))?: ",
    re.MULTILINE,
)
_KINDS_OF_ORIGIN = {"OP": "OP", "CODE": "OWN_CODE", "WEIGHT": "WEIGHT"}


@dataclasses.dataclass
class Outcome:
    """The outcome of a trial. Each answer is `right`, `wrong` or `none`."""

    name: str
    half: str
    family: str
    subject: str
    precision: str
    setting: str
    # Whether the mistake is on record in the target run.
    shows_by_itself: bool
    # Whether the mistake moves the result by more than the noise.
    is_above_noise: bool
    error: float = 0.0
    noise: float = 0.0
    # The op that `compare run` names, and those of the other two commands.
    golden: str = NONE
    verify: str = NONE
    origin: str = NONE
    # The first module that `verify` reports as unlike its siblings.
    siblings: str = NONE
    # The explanation of `compare run`, and whether a note of the cause names the
    # mistake.
    cause: str = NONE
    is_noted: bool = False
    # An exception: the trial could not be judged.
    failure: str = ""
    texts: list[str] = dataclasses.field(default_factory=list)

    @property
    def alone(self) -> str:
        """The op that is named without a golden run: `run origin` is asked first, and
        observations of siblings only count if nothing is wrong by itself.
        """
        named = (self.origin, self.verify, self.siblings)
        return next((each for each in named if each != NONE), NONE)

    @property
    def is_wrong_alone(self) -> bool:
        """Whether a command names a wrong op without a golden run."""
        return WRONG in (self.verify, self.origin, self.alone)

    @property
    def is_explained(self) -> bool:
        """Whether an explanation or a note names the mistake."""
        return self.cause == RIGHT or self.is_noted


def is_named(
    maker: dict[str, Any],
    mistake: Mistake | None,
    truth: Truth,
    positions: Positions,
) -> bool:
    """Returns whether a cause is the place of a mistake."""
    if mistake is None:
        return False
    op = maker["op"]
    is_before_the_model = maker["kind"] == "OWN_CODE" and not op
    if mistake.is_in_the_caller and (
        is_before_the_model or maker["kind"] == "MODEL_INPUTS"
    ):
        return True
    if any(fnmatch.fnmatchcase(op, pattern) for pattern in mistake.also):
        return True
    is_function = op != "root" and not op.startswith("root.")
    # A function that is correct is not the wrong one next to it.
    if mistake.kernel and is_function and not fnmatch.fnmatchcase(op, mistake.kernel):
        return False
    return any(names(maker, place) or spans(maker, place, positions) for place in truth)


def judge_golden(
    answer: dict[str, Any],
    mistake: Mistake | None,
    truth: Truth,
    positions: Positions,
) -> tuple[str, str]:
    """Judges the first cause of a comparison, and its explanations."""
    makers = answer["comparison"]["makers"]
    if answer["verdict"] == "PASS" or not makers:
        is_blamed = answer["comparison"].get("input_difference") is not None
        return (WRONG if is_blamed else NONE), NONE
    maker = makers[0]
    wanted = mistake.kinds if mistake else frozenset()
    if maker["kind"] == "FLIP":
        # The kind of the cause is the explanation.
        is_right = "FLIP" in wanted and any(
            is_named({**maker, "kind": kind}, mistake, truth, positions)
            for kind in ("OP", "OWN_CODE")
        )
        return (RIGHT, RIGHT) if is_right else (NONE, NONE)
    if maker["kind"] not in (*BLAMED, "MODEL_INPUTS"):
        return NONE, NONE
    is_right = is_named(maker, mistake, truth, positions)
    kinds = {one["kind"] for one in maker.get("explanations", [])}
    cause = NONE
    if kinds & wanted and is_right:
        cause = RIGHT
    elif kinds - {"SUBSET"}:
        # That only some indices differ is a fact, and not a mistake.
        cause = WRONG
    return (RIGHT if is_right else WRONG), cause


def is_noted(answer: dict[str, Any], mistake: Mistake | None) -> bool:
    """Returns whether the note of the first cause names the mistake."""
    if mistake is None or not mistake.note:
        return False
    return bool(re.search(mistake.note, answer["comparison"]["makers"][0]["note"]))


class Judge:
    """Records and judges trials with one daemon."""

    def __init__(self, daemon: Daemon, asks_compare_only: bool = False) -> None:
        self._daemon = daemon
        self._asks_compare_only = asks_compare_only
        self._recorder = Recorder(daemon.endpoint)
        self._positions: dict[str, Positions] = {}

    def judge_all(self, trials: list[Trial]) -> Iterator[Outcome]:
        ranks = record_ranks(self._daemon.endpoint, trials)
        for trial in trials:
            outcome = _empty(trial)
            try:
                recorded = ranks.get(trial.name) or self._recorder.record(trial)
                self._judge(trial, recorded, outcome)
            except Exception:  # noqa: BLE001
                # An error of the benchmark does not end the other trials.
                outcome.failure = traceback.format_exc(limit=-3)
            yield outcome

    def _judge(self, trial: Trial, recorded: Recorded, outcome: Outcome) -> None:
        outcome.error, outcome.noise = recorded.error, recorded.noise
        outcome.is_above_noise = recorded.error > ABOVE_NOISE * recorded.noise
        mistake, truth = trial.mistake, recorded.truth
        outcome.texts = [f"truth {place}" for place in truth]
        answer = self._ask(
            "compare", "run", recorded.golden, recorded.target, "--rows", "none"
        )
        outcome.texts += header(answer[0]).splitlines()
        positions = self._positions_of(recorded.golden)
        outcome.golden, outcome.cause = judge_golden(
            answer[0], mistake, truth, positions
        )
        outcome.is_noted = outcome.golden == RIGHT and is_noted(answer[0], mistake)
        if self._asks_compare_only:
            outcome.origin = outcome.verify = outcome.siblings = NOT_ASKED
            return
        outcome.origin = self._origin(recorded, mistake, outcome.texts)
        words = ("verify", recorded.target, "--python", sys.executable)
        _, summary = self._ask(*words)
        outcome.verify = self._verify(recorded, mistake, summary, outcome.texts)
        outcome.siblings = self._siblings(recorded, mistake, summary, outcome.texts)

    def _ask(self, *words: str) -> tuple[Any, str]:
        """Returns the JSON that a command prints, and its messages."""
        result = self._daemon.ctl("-o", "json", *words, expect=None)
        if result.returncode not in (0, 1, 4):
            raise RuntimeError(f"{words}: {result.returncode}: {result.stderr}")
        return json.loads(result.stdout), result.stderr

    def _origin(
        self, recorded: Recorded, mistake: Mistake | None, texts: list[str]
    ) -> str:
        answer, _ = self._ask("run", "origin", recorded.target)
        if answer["result"] != "FOUND":
            return NONE
        found = answer["origins"][0]
        texts.append(f"origin {found['kind']} {found['op']} {found['tensor']['name']}")
        maker = {
            "kind": _KINDS_OF_ORIGIN.get(found["kind"], found["kind"]),
            "op": found["op"],
            "after": found.get("after", ""),
            "before": found.get("before", ""),
            "row": found["tensor"],
        }
        positions = self._positions_of(recorded.target)
        return RIGHT if is_named(maker, mistake, recorded.truth, positions) else WRONG

    def _verify(
        self,
        recorded: Recorded,
        mistake: Mistake | None,
        summary: str,
        texts: list[str],
    ) -> str:
        if "checked " not in summary:
            raise RuntimeError(f"verify printed no summary: {summary}")
        found = _WRONG_LINE.search(summary)
        if found is None:
            if "wrong by itself" in summary:
                raise RuntimeError(f"unknown line: {summary}")
            return NONE
        texts.append(summary[found.start() :].splitlines()[0])
        sequence = self._sequence_of(recorded.target, found)
        maker = {
            "kind": "OP",
            "op": found["op"],
            "after": "",
            "before": "",
            "row": {
                "token": found["token"],
                "io": f"IO_{found['io'].upper()}",
                "sequence": sequence,
            },
        }
        positions = self._positions_of(recorded.target)
        return RIGHT if is_named(maker, mistake, recorded.truth, positions) else WRONG

    def _siblings(
        self,
        recorded: Recorded,
        mistake: Mistake | None,
        summary: str,
        texts: list[str],
    ) -> str:
        if "siblings  " not in summary:
            raise RuntimeError(f"verify printed nothing about siblings: {summary}")
        found = UNLIKE_LINE.search(summary)
        if found is None:
            if "unlike siblings" in summary:
                raise RuntimeError(f"unknown line: {summary}")
            return NONE
        texts.append(summary[found.start() :].splitlines()[0])
        has_tensor = found["call"] is not None and found["io"] is not None
        maker = {
            "kind": "OWN_CODE" if found["code"] else "OP",
            "op": found["op"],
            "after": found["after"] or "",
            "before": found["before"] or "",
            "row": {
                "token": found["token"] or "0",
                "io": f"IO_{(found['io'] or 'output').upper()}",
                "sequence": self._sequence_of(recorded.target, found)
                if has_tensor
                else -1,
            },
        }
        positions = self._positions_of(recorded.target)
        return RIGHT if is_named(maker, mistake, recorded.truth, positions) else WRONG

    def _sequence_of(self, run: str, found: "re.Match[str]") -> int:
        rank, token, call = (int(found[key]) for key in ("rank", "token", "call"))
        chosen = msitd.query.select(
            ranks=rank, tokens=token, io=found["io"], kinds=CALL_KINDS
        )
        others = []
        with msitd.query.connect(self._daemon.endpoint) as connection:
            for tensor in connection.tensors.list(run, chosen):
                if (tensor.op, tensor.call) != (found["op"], call):
                    continue
                if str(tensor.index) == found["index"]:
                    return int(tensor.sequence)
                others.append(int(tensor.sequence))
        if others:
            # An argument that the call was not given.
            return others[0]
        raise LookupError(f"{run} lacks the tensor of: {found[0]}")

    def _positions_of(self, run: str) -> Positions:
        if run not in self._positions:
            found: Positions = defaultdict(list)
            with msitd.query.connect(self._daemon.endpoint) as connection:
                for tensor in connection.tensors.list(run):
                    key = (tensor.token, tensor.op, tensor.io)
                    found[key].append(tensor.sequence)
            self._positions[run] = dict(found)
        return self._positions[run]


def _empty(trial: Trial) -> Outcome:
    mistake = trial.mistake
    return Outcome(
        name=trial.name,
        half=trial.half,
        family=mistake.family if mistake else "",
        subject=trial.subject,
        precision=trial.precision,
        setting=trial.setting,
        shows_by_itself=mistake is not None and mistake.shows_by_itself,
        is_above_noise=False,
    )


def failures(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Returns the trials that could not be judged."""
    return [one for one in outcomes if one.failure]
