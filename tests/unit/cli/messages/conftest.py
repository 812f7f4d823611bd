import os

import pytest


@pytest.fixture
def stdin(monkeypatch, tmp_path):
    """Let the next command read these bytes: from a file, or from a pipe."""
    opened = []

    def provide(content, *, is_pipe):
        if is_pipe:
            reader, writer = os.pipe()
            os.write(writer, content)
            os.close(writer)
        else:
            (tmp_path / "in").write_bytes(content)
            reader = os.open(tmp_path / "in", os.O_RDONLY)
        opened.append(os.fdopen(reader, "rb"))
        monkeypatch.setattr("sys.stdin", opened[-1])

    yield provide
    for file in opened:
        file.close()
