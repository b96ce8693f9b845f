"""Lines of the log: messages with keys as kube-scheduler's have, as text or JSON, and what kopf says in plain words."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, Literal, ParamSpec, TextIO

__all__ = ["JsonFormatter", "KeyedMessage", "KopfMessageFilter", "configure", "guarded", "guarded_async"]


_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OBJECTS: Final = frozenset({"pod"})
"""Keys whose value is ``namespace/name``, which JSON has in two fields as klog writes them."""

_TOLD_AGAIN: Final = 30
"""Attempts of kopf until a request that goes on failing is told again; they come every 10 seconds."""

Value = str | int | float


class KeyedMessage:
    """A message with keys, put together when a handler writes it.

    Parameters
    ----------
    text
        What happened, in kube-scheduler's words where it says the same.
    keys
        What it happened to; in the order in which they are written.
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
    """Words what kopf and its tasks log as what it means here, and leaves out what means nothing.

    kopf calls an error what is expected of watches: it tries again, and where it gives up it is started again, which
    is logged by the code that does that. Errors in handlers are ours, and stay as they are.

    Parameters
    ----------
    level
        The level that is logged: with DEBUG nothing is left out.
    """

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record where kopf wrote it; False where it is left out."""
        if record.name == "asyncio":
            _word_task(record)
        elif record.name.partition(".")[0] == "kopf":
            _word_kopf(record)
        return record.levelno >= self._level


def _put(record: logging.LogRecord, level: int, text: str = "") -> None:
    """Give a record another level, and one line for its text and its trace where there is one."""
    record.levelno, record.levelname = level, logging.getLevelName(level)
    if text:
        record.msg, record.args = text.replace("\n", " "), None
        record.exc_info = record.exc_text = None


def _word_task(record: logging.LogRecord) -> None:
    """Word a failed task of kopf's that nobody asked about: its error has ended kopf, and was told as that."""
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
    """Tell of the first of several attempts, and again after minutes; those between them are no news."""
    told = int(found["number"]) % _TOLD_AGAIN == 1 or found["then"] == "escalating"
    text = f"kopf could not {found['what']}, and tries again: {_plain(found['why'])}"
    _put(record, logging.WARNING if told else logging.DEBUG, text)


def _plain(error: str) -> str:
    """Return type and message of an error that is written as code, without the answer that it carries."""
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
        f"not watched, because the API server does not know them (are the CRDs there?): {names}",
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
    """Have everything logged to a stream from now on."""
    number = logging.getLevelNamesMapping()[level]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(_TEXT))
    handler.addFilter(KopfMessageFilter(number))
    root = logging.getLogger()
    root.setLevel(number)
    root.addHandler(handler)
    for name in ("kopf.objects", "numba"):  # one line per event, or per instruction that is compiled, otherwise
        logging.getLogger(name).setLevel(logging.WARNING)


log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_FAILED: Final = "%s failed; what it was told of goes on"


def guarded(hook: Callable[_P, None]) -> Callable[_P, None]:
    """Return a hook that fails in the log, and never its caller; what is no failure, such as a cancellation, passes."""

    @wraps(hook)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            hook(*args, **kwargs)
        except Exception:
            log.exception(_FAILED, getattr(hook, "__qualname__", hook))

    return call


def guarded_async(hook: Callable[_P, Awaitable[None]]) -> Callable[_P, Awaitable[None]]:
    """Do what :func:`guarded` does for a hook that is awaited."""

    @wraps(hook)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            await hook(*args, **kwargs)
        except Exception:
            log.exception(_FAILED, getattr(hook, "__qualname__", hook))

    return call
