"""What a face needs of the daemon and its programs: where they are, and one of its own.

Faces that write folders of other tools export them by `msitctl`.
"""
