import pytest


class Run:
    """A server command that ran until its service listened, and was stopped then."""

    def __init__(self):
        self.services = []
        self.inspect = lambda service: None


@pytest.fixture
def served(monkeypatch):
    """Let server commands end as soon as they serve; `inspect`, if set, is called with the service meanwhile."""
    run = Run()

    async def serve(make, announce):
        service = make()
        try:
            await service.start()
            run.services.append(service)
            announce(service)
            run.inspect(service)
        finally:
            await service.stop()

    monkeypatch.setattr("orbitmq.cli.servers.serving.serve_until_signal", serve)
    return run
