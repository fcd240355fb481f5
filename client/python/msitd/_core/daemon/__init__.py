"""Access to a daemon and its programs for the interfaces of other tools.

Interfaces that write folders of other tools start a daemon if none is running,
and export the folders with `msitctl`.
"""
