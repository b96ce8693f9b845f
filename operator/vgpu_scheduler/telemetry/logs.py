"""Log lines: messages with keys as in kube-scheduler, as text or JSON, and kopf's messages in plain words."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Final, Literal, TextIO

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OBJECTS: Final = frozenset({"pod"})
"""Keys with a value ``namespace/name``, which JSON has as two fields, as in klog."""

_TOLD_AGAIN: Final = 30
"""Attempts of kopf, one every 10 seconds, between two warnings about the same failing request."""

Value = str | int | float


class KeyedMessage:
    """A message with keys, formatted only when a handler writes it.

    Parameters
    ----------
    text
        What happened, in kube-scheduler's words where it has the same message.
    keys
        The keys, written in this order.
    """

    __slots__ = ("keys", "text")

    def __init__(self, text: str, /, **keys: Value) -> None:
        self.text = text
        self.keys = keys

    def __str__(self) -> str:
        """Return ``"text" key="value" number=1``, as klog does."""
        parts = [_quoted(self.text)]
        parts += [f"{key}={_quoted(value) if isinstance(value, str) else value}" for key, value in self.keys.items()]
        return " ".join(parts)


_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode
_in_one_line: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``ts`` (milliseconds since 1970), ``level``, ``logger``, ``msg``, and the keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "ts": round(record.created * 1000, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if isinstance(record.msg, KeyedMessage):
            line["msg"] = record.msg.text
            line |= {key: _in_json(key, value) for key, value in record.msg.keys.items()}
        else:
            line["msg"] = record.getMessage()
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return _in_one_line(line)


def _in_json(key: str, value: Value) -> object:
    if key not in _OBJECTS or not isinstance(value, str):
        return value
    namespace, _, name = value.rpartition("/")
    return {"name": name, "namespace": namespace}


class KopfMessageFilter(logging.Filter):
    """Rewords messages of kopf and its tasks, and drops those that mean nothing to the reader.

    kopf logs expected watch failures as errors, although it retries, and the supervisor, which restarts kopf if it
    gives up, logs that itself. Errors in handlers are ours and stay unchanged.

    Parameters
    ----------
    level
        The log level; with DEBUG nothing is dropped.
    """

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        """Change a record of kopf; return False to drop the record."""
        if record.name == "asyncio":
            _word_task(record)
        elif record.name.partition(".")[0] == "kopf":
            _word_kopf(record)
        return record.levelno >= self._level


def _put(record: logging.LogRecord, level: int, text: str = "") -> None:
    """Set a record's level; a text, if given, replaces its message and traceback with one line."""
    record.levelno, record.levelname = level, logging.getLevelName(level)
    if text:
        record.msg, record.args = text.replace("\n", " "), None
        record.exc_info = record.exc_text = None


def _word_task(record: logging.LogRecord) -> None:
    """Reword asyncio's complaint about a failed task of kopf: its error ended kopf and was logged already."""
    message = record.getMessage()
    if "/kopf/" in message and (" exception was never retrieved" in message or "was destroyed" in message):
        found = re.search(r"exception=(.*)>", message)
        _put(record, logging.DEBUG, f"a task of kopf ended: {found[1] if found else message}")


def _word_kopf(record: logging.LogRecord) -> None:
    message = record.getMessage()
    for pattern, word in _WORDED:
        found = pattern.match(message)
        if found:
            word(record, found)
            return
    if record.levelno <= logging.INFO:
        _put(record, logging.DEBUG)


def _retry(record: logging.LogRecord, found: re.Match[str]) -> None:
    """Warn at the first failed attempt, and again after minutes; log those between only for debugging."""
    told = int(found["number"]) % _TOLD_AGAIN == 1 or found["then"] == "escalating"
    text = f"kopf could not {found['what']}, and tries again: {_plain(found['why'])}"
    _put(record, logging.WARNING if told else logging.DEBUG, text)


def _plain(error: str) -> str:
    """Return type and message of an error, given its repr, without the answer that the error carries."""
    found = _ERROR.match(error)
    return f"{found['type']}: {found['message']}" if found else error


def _ended(record: logging.LogRecord, found: re.Match[str]) -> None:
    """Log only for debugging that a task of kopf ended: its supervisor logs the reason when it starts kopf again."""
    _put(record, logging.DEBUG, f"a part of kopf ended ({found['what']}): {found['why']}")


def _undefined(record: logging.LogRecord, found: re.Match[str]) -> None:
    """Name the resources that cannot be watched because their definitions are missing."""
    names = ", ".join(sorted(set(re.findall(r"any_name='(.*?)'", found["what"])))) or found["what"]
    _put(
        record,
        logging.WARNING,
        f"not watched, because the API server does not serve them (are the CRDs installed?): {names}",
    )


def _quiet(record: logging.LogRecord, found: re.Match[str]) -> None:
    del found
    _put(record, logging.DEBUG)


_ERROR: Final = re.compile(r"(?P<type>\w+)\((?P<quote>['\"])(?P<message>.*?)(?P=quote)(?:, .*)?\)$", re.DOTALL)
_Word = Callable[[logging.LogRecord, re.Match[str]], None]
_WORDED: Final[tuple[tuple[re.Pattern[str], _Word], ...]] = (
    (
        re.compile(
            r"Request attempt #(?P<number>\d+)(?:/\d+)? failed; (?P<then>will retry|escalating): "
            r"(?P<what>.*?) -> (?P<why>.*)",
            re.DOTALL,
        ),
        _retry,
    ),
    (re.compile(r"Request attempt #\d+(?:/\d+)? failed; (?:TCP|SSL) closed; will re-authenticate"), _quiet),
    (re.compile(r"(?!Event processing|.*uthentication)(?P<what>[^:]*?) has failed: (?P<why>.*)", re.DOTALL), _ended),
    (re.compile(r"Unresolved resources cannot be served \([^)]*\): ?(?P<what>.*)", re.DOTALL), _undefined),
    (re.compile(r".* has finished unexpectedly\.|OS signals are ignored|Unprocessed streams left"), _quiet),
)


def configure(level: str, form: Literal["text", "json"], stream: TextIO) -> None:
    """Log everything to a stream from now on."""
    number = logging.getLevelNamesMapping()[level]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(_TEXT))
    handler.addFilter(KopfMessageFilter(number))
    root = logging.getLogger()
    root.setLevel(number)
    root.addHandler(handler)
    for name in ("kopf.objects", "numba"):  # they log a line per event, or per compiled instruction
        logging.getLogger(name).setLevel(logging.WARNING)
