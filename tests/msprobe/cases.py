"""Small programs that both tools run. Each calls `steps(model, count)`, whose body is
a step that is dumped.

`SEEN` may be looked at while msitd is changed. `UNSEEN` were written before any result
of them was looked at, and are only counted.
"""

from __future__ import annotations

from cases_seen import SEEN
from cases_unseen import UNSEEN

CASES = SEEN | UNSEEN
