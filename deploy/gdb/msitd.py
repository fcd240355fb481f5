"""Commands of gdb for msitd and for programs that use libmsit.

    gdb -p $(pidof msitd) -x deploy/gdb/msitd.py -ex msitd-threads

msitd-threads prints one line for each thread: its name, the innermost function of
this project that it executes, and the place in the source. Locks and condition
variables are skipped, so the line of an idle thread names the loop that waits.
"""

import gdb

_OURS = "msitd::"
_WAITS = ("msitd::CondVar::", "msitd::Mutex::", "msitd::MutexLock::")


def _line(frame: gdb.Frame) -> str:
    place = frame.find_sal()
    if place.symtab is None:
        return str(frame.name())
    return f"{frame.name()}  {place.symtab.filename}:{place.line}"


def _innermost(frame: "gdb.Frame | None") -> str:
    waits = ""
    while frame is not None:
        name = frame.name() or ""
        if name.startswith(_WAITS):
            waits = "waits in "
        elif name.startswith(_OURS):
            return waits + _line(frame)
        frame = frame.older()
    return "not in msitd"


class Threads(gdb.Command):
    """Prints what each thread executes."""

    def __init__(self) -> None:
        super().__init__("msitd-threads", gdb.COMMAND_STACK)

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Prints one line for each thread."""
        selected = gdb.selected_thread()
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda t: t.num):
            thread.switch()
            print(f"{thread.num:4} {thread.name:16} {_innermost(gdb.newest_frame())}")
        if selected is not None:
            selected.switch()


Threads()
