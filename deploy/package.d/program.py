#!python
"""Runs the program with the name of this script from the package msitd."""

import importlib.util
import os
import sys

name = os.path.basename(sys.argv[0])
spec = importlib.util.find_spec("msitd")
if spec is None or not spec.submodule_search_locations:
    sys.exit(f"{name}: the package msitd is not installed for this Python")
folder = os.path.join(spec.submodule_search_locations[0], "bin")
# msit is msitctl, called by another name.
program = os.path.join(folder, "msitctl" if name == "msit" else name)
os.execv(program, [os.path.join(folder, name), *sys.argv[1:]])
