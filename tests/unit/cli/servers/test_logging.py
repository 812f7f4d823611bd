"""The servers' log lines."""

import io
import json
import logging

from cases import each_case
from orbitmq.cli.servers.logging import LogLevel, configure_logging


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_line_in_a_pipe_is_one_json_object_with_the_rooms_own_fields():
    stream = io.StringIO()
    configure_logging(LogLevel.INFO, stream)

    logging.getLogger("orbitmq.broker").info("serves at %s", "ä:1", extra={"topic": "orders"})

    assert "ä:1" in stream.getvalue()
    line = json.loads(stream.getvalue())
    assert line["event"] == "serves at ä:1"
    assert (line["level"], line["logger"], line["topic"]) == ("info", "orbitmq.broker", "orders")
    assert line["timestamp"].endswith("Z")


def test_an_exception_stays_inside_its_line():
    stream = io.StringIO()
    configure_logging(LogLevel.INFO, stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("x").exception("it failed")
    assert "ValueError: broken" in json.loads(stream.getvalue())["exception"]


def test_a_line_on_a_terminal_is_for_people():
    stream = Terminal()
    configure_logging(LogLevel.INFO, stream)
    logging.getLogger("orbitmq").warning("disk is full")
    assert "disk is full" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_lines_below_the_level_are_dropped():
    stream = io.StringIO()
    configure_logging(LogLevel.WARNING, stream)
    logging.getLogger("orbitmq").info("chatter")
    assert stream.getvalue() == ""


@each_case(Terminal(), io.StringIO())
def test_plain_lines_have_the_form_of_what_commands_print(stream):
    configure_logging(LogLevel.INFO, stream, is_plain=True)
    logging.getLogger("orbitmq").warning("alert %s: %s", "disk", "it is full", extra={"alert": "disk"})
    assert stream.getvalue() == "orbitmq: alert disk: it is full\n"
