"""Lines of the log: keys as kube-scheduler's, text or JSON, and kopf's words translated."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import kopf
import pytest

from vgpu_scheduler.telemetry import KeyedMessage
from vgpu_scheduler.telemetry.logs import JsonFormatter, KopfMessageFilter, configure

KOPF = "\n".join(path.read_text() for path in Path(kopf.__file__).parent.rglob("*.py"))
BOUND = KeyedMessage("Successfully bound pod to node", pod="default/x", node="n1", evaluatedNodes=3, feasibleNodes=2)


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger without handlers; what it had comes back."""
    logger, objects = logging.getLogger(), logging.getLogger("kopf.objects")
    handlers, level, detail = logger.handlers[:], logger.level, objects.level
    logger.handlers[:] = []
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)
    objects.setLevel(detail)


def record(name: str, level: int, message: object, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, level, "file.py", 1, message, args, None)


def test_keys_are_written_as_klog_writes_them() -> None:
    assert str(BOUND) == ('"Successfully bound pod to node" pod="default/x" node="n1" evaluatedNodes=3 feasibleNodes=2')
    assert str(KeyedMessage("a", err='two\nlines and "quotes", µ')) == '"a" err="two\\nlines and \\"quotes\\", µ"'


def test_a_message_is_put_together_only_where_it_is_written() -> None:
    class Unwritten(KeyedMessage):
        def __str__(self) -> str:
            raise AssertionError

    logger = logging.getLogger("vgpu_scheduler.test.unwritten")
    logger.setLevel(logging.INFO)
    logger.debug(Unwritten("a"))


def test_json_has_the_keys_and_objects_by_namespace_and_name() -> None:
    line = json.loads(JsonFormatter().format(record("vgpu_scheduler.binding", logging.INFO, BOUND)))
    assert isinstance(line.pop("ts"), float)
    assert line == {
        "level": "info", "logger": "vgpu_scheduler.binding", "msg": "Successfully bound pod to node",
        "pod": {"name": "x", "namespace": "default"}, "node": "n1", "evaluatedNodes": 3, "feasibleNodes": 2,
    }  # fmt: skip
    plain = json.loads(JsonFormatter().format(record("kopf", logging.WARNING, "%d of\n%s", 1, "many")))
    assert (plain["level"], plain["msg"]) == ("warning", "1 of\nmany")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_is_a_line_in_json_and_traces_are_kept(root: logging.Logger, form: str) -> None:
    stream = io.StringIO()
    configure("INFO", "json" if form == "json" else "text", stream)
    try:
        int("wrong")
    except ValueError:
        logging.getLogger("vgpu_scheduler.x").exception(
            KeyedMessage("Error scheduling pod; retrying", pod="a/b", err="e")
        )
    logging.getLogger("vgpu_scheduler.x").debug("left out")
    lines = stream.getvalue().splitlines()
    assert "ValueError: invalid literal" in lines[-1]
    if form == "json":
        (line,) = lines
        assert json.loads(line)["trace"].startswith("Traceback")
    else:
        assert lines[0].endswith('ERROR vgpu_scheduler.x: "Error scheduling pod; retrying" pod="a/b" err="e"')


WORDS = [
    (
        "kopf._cogs.clients.watching", logging.ERROR,
        "Request attempt #1 failed; will retry: GET http://a/b -> APIServerError('no', {'kind': 'Status'})",
        logging.WARNING, "kopf could not GET http://a/b, and tries again: APIServerError: no",
    ),
    (
        "kopf._cogs.clients.watching", logging.ERROR,
        "Request attempt #2 failed; will retry: GET http://a/b -> TimeoutError()",
        logging.DEBUG, "kopf could not GET http://a/b, and tries again: TimeoutError()",
    ),
    (
        "kopf._cogs.clients.watching", logging.ERROR,
        "Request attempt #31 failed; will retry: GET http://a/b -> TimeoutError()",
        logging.WARNING, "kopf could not GET http://a/b, and tries again: TimeoutError()",
    ),
    (
        "kopf._cogs.clients.fetching", logging.ERROR,
        "Request attempt #9/9 failed; escalating: GET http://a/b -> ClientOSError(104, 'reset')",
        logging.WARNING, "kopf could not GET http://a/b, and tries again: ClientOSError(104, 'reset')",
    ),
    (
        "kopf._cogs.clients.watching", logging.ERROR,
        "Request attempt #1 failed; TCP closed; will re-authenticate: GET http://a/b", logging.DEBUG, None,
    ),
    (
        "kopf._core.reactor.orchestration", logging.ERROR, "Watcher for nodes.v1@none has failed: gone",
        logging.DEBUG, "a part of kopf ended (Watcher for nodes.v1@none): gone",
    ),
    (
        "kopf._core.reactor.observation", logging.WARNING,
        "Unresolved resources cannot be served (try creating their CRDs): S(any_name='b'), S(any_name='a')",
        logging.WARNING, "not watched, because the API server does not serve them (are the CRDs installed?): a, b",
    ),
    (
        "kopf._core.reactor.running", logging.WARNING, "Poster of events has finished unexpectedly.",
        logging.DEBUG, None,
    ),
    ("kopf._core.engines.activities", logging.INFO, "Initial authentication has been initiated.", logging.DEBUG, None),
    (
        "kopf._core.engines.activities", logging.WARNING, "Re-authentication has failed: no credentials were retrieved",
        logging.WARNING, None,
    ),
    ("kopf.activities.authentication", logging.INFO, "Activity 'login' succeeded.", logging.DEBUG, None),
    ("kopf.objects", logging.ERROR, "Handler 'on_event' failed with an exception. Will ignore.", logging.ERROR, None),
    (
        "kopf._core.reactor.queueing", logging.ERROR,
        "Event processing has failed with an unrecoverable error for x.", logging.ERROR, None,
    ),
    (
        "asyncio", logging.ERROR,
        "Task exception was never retrieved\nfuture: <Task coro=<g(), /kopf/y.py:7> exception=APIError('no')>",
        logging.DEBUG, "a task of kopf ended: APIError('no')",
    ),
    (
        "asyncio", logging.ERROR,
        "Task exception was never retrieved\nfuture: <Task coro=<f(), /vgpu_scheduler/x.py:1> exception=E()>",
        logging.ERROR, None,
    ),
    ("vgpu_scheduler.binding", logging.INFO, "Watcher for a has failed: not kopf's", logging.INFO, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "level", "message", "becomes", "worded"), WORDS)
def test_what_kopf_says_in_plain_words(name: str, level: int, message: str, becomes: int, worded: str | None) -> None:
    written = record(name, level, message)
    assert KopfMessageFilter(logging.INFO).filter(written) is (becomes >= logging.INFO)
    assert (written.levelno, written.levelname) == (becomes, logging.getLevelName(becomes))
    assert written.getMessage() == (message if worded is None else worded)
    again = record(name, level, message)
    assert KopfMessageFilter(logging.DEBUG).filter(again)


@pytest.mark.parametrize(
    "words",
    [
        "failed; will retry: {what} -> {e!r}", "failed; escalating: {what} -> {e!r}", "Request attempt {idx} failed",
        'f"#{retry}/{count}"', "TCP closed; will re-authenticate", "SSL closed; will re-authenticate",
        "{capname} has failed: {e}", "{capname} has finished unexpectedly.", "OS signals are ignored",
        "Unprocessed streams left", "Unresolved resources cannot be served (try creating their CRDs):",
        "Event processing has failed", "{_activity_title} has failed: ",
    ],
)  # fmt: skip
def test_the_words_are_those_of_this_version_of_kopf(words: str) -> None:
    assert re.search(re.escape(words), KOPF), f"kopf does not say {words!r} any more: look at telemetry/logs.py"
