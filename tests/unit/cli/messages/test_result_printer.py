import json

import pytest

from orbitmq.cli.messages.result_printer import ResultPrinter
from orbitmq.cli.terminal.output import Format
from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.errors import RequestTimeout
from orbitmq.model.route import MessageQueue

SENT = SendResult("ID", "OFFSET-ID", MessageQueue("t", "broker-a", 3), 40, SendStatus.SEND_OK)


def test_one_message_is_a_row(capsys):
    printer = ResultPrinter(Format.TABLE, is_summary=False)
    printer.show([SENT])
    printer.finish()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["MESSAGE_ID", "BROKER", "QUEUE", "OFFSET", "STATUS"],
        ["ID", "broker-a", "3", "40", "SEND_OK"],
    ]


def test_many_messages_are_a_number(capsys):
    printer = ResultPrinter(Format.TABLE, is_summary=True)
    printer.show([SENT] * 2)
    printer.show([SENT])
    printer.finish()
    out, err = capsys.readouterr()
    assert (out, printer.count) == ("", 3)
    assert err.startswith("sent 3 messages in 0.")


def test_programs_get_an_object_a_line(capsys):
    printer = ResultPrinter(Format.JSON, is_summary=False)
    printer.show([SENT, SENT])
    printer.finish()
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert (
        rows
        == [
            {
                "message_id": "ID",
                "offset_message_id": "OFFSET-ID",
                "topic": "t",
                "broker": "broker-a",
                "queue": 3,
                "offset": 40,
                "status": "SEND_OK",
            }
        ]
        * 2
    )
    assert err == ""


def test_what_went_through_is_printed_before_the_first_failure_is_raised(capsys):
    printer = ResultPrinter(Format.TABLE, is_summary=False)
    first, second = RequestTimeout("first"), RequestTimeout("second")
    with pytest.raises(RequestTimeout, match="first"):
        printer.show([first, SENT, second])
    assert "SEND_OK" in capsys.readouterr().out
    assert printer.count == 1


def test_nothing_sent_prints_no_empty_table(capsys):
    printer = ResultPrinter(Format.TABLE, is_summary=False)
    printer.show([])
    assert capsys.readouterr().out == ""


def test_a_delayed_message_shows_what_it_is_taken_back_with(capsys):
    delayed = SENT._replace(recall_handle="aGFuZGxl")
    ResultPrinter(Format.TABLE, is_summary=False).show([delayed])
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["RECALL_HANDLE", "aGFuZGxl"]
    ResultPrinter(Format.JSON, is_summary=True).show([delayed])
    assert json.loads(capsys.readouterr().out)["recall_handle"] == "aGFuZGxl"
