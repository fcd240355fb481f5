"""Small programs that both tools run. Each calls `steps(model, count)`, whose body is
a step that is dumped.

`SEEN` are for the development of msitd. `UNSEEN` were written before any of their
results was known, and are only counted.
"""

from __future__ import annotations

from cases_seen import SEEN
from cases_unseen import UNSEEN

CASES = SEEN | UNSEEN
