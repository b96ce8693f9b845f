"""Label selectors, node selectors, and tolerations."""

import pytest

from vgpu_scheduler.kube import SelectorError, Taint, Toleration, compile_label_selector, parse_label_selector, taint
from vgpu_scheduler.kube.selectors import RawRequirement, compile_node_selector, compile_requirement, label_equals


@pytest.mark.parametrize(
    ("operator", "values", "value", "matches"),
    [
        ("In", ["a", "b"], "a", True),
        ("In", ["a", "b"], "c", False),
        ("In", ["a"], None, False),
        ("In", [""], "", True),
        ("In", [""], None, False),
        ("NotIn", ["a"], "a", False),
        ("NotIn", ["a"], "b", True),
        ("NotIn", ["a"], None, True),
        ("Exists", [], "", True),
        ("Exists", [], None, False),
        ("DoesNotExist", [], "", False),
        ("DoesNotExist", [], None, True),
        ("Gt", ["5"], "6", True),
        ("Gt", ["5"], "5", False),
        ("Gt", ["5"], "007", True),
        ("Gt", ["5"], "6.5", False),
        ("Gt", ["5"], "1_0", False),
        ("Gt", ["5"], "9223372036854775808", False),
        ("Gt", ["5"], None, False),
        ("Lt", ["5"], "4", True),
        ("Lt", ["5"], "5", False),
        ("Lt", ["5"], "", False),
    ],
)
def test_requirement(operator: str, values: list[str], value: str | None, *, matches: bool) -> None:
    assert compile_requirement("key", operator, values).matches(value) is matches


@pytest.mark.parametrize(
    ("key", "operator", "values"),
    [
        ("key", "In", []),
        ("key", "NotIn", []),
        ("key", "Exists", ["a"]),
        ("key", "DoesNotExist", ["a"]),
        ("key", "Gt", []),
        ("key", "Gt", ["1", "2"]),
        ("key", "Gt", ["abc"]),
        ("key", "Lt", ["9223372036854775808"]),
        ("key", "Equals", ["a"]),
        ("key", "In", ["a/b"]),
        ("key", "In", ["a" * 64]),
        ("", "Exists", []),
        ("-key", "Exists", []),
        ("/key", "Exists", []),
        ("Prefix/key", "Exists", []),
        ("a/b/c", "Exists", []),
        ("k" * 64, "Exists", []),
        ("p" * 254 + "/key", "Exists", []),
    ],
)
def test_bad_requirement(key: str, operator: str, values: list[str]) -> None:
    with pytest.raises(SelectorError):
        compile_requirement(key, operator, values)


def test_label_selector() -> None:
    selector = compile_label_selector(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]}],
        }
    )
    assert selector is not None
    assert selector.matches({"app": "web"})
    assert not selector.matches({"app": "web", "tier": "test"})
    assert not selector.matches({})


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert compile_label_selector(None) is None
    empty = compile_label_selector({})
    assert empty is not None
    assert empty.matches({})


@pytest.mark.parametrize(
    "selector",
    [
        {"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["1"]}]},
        {"matchFields": []},
        {"matchLabels": {"app": "not a value"}},
        {"matchExpressions": [{"key": "n"}]},
    ],
)
def test_bad_label_selector(selector: dict[str, object]) -> None:
    with pytest.raises(SelectorError):
        compile_label_selector(selector)


def test_node_selector_map_is_not_validated() -> None:
    (requirement,) = label_equals({"odd key": "odd value"})
    assert requirement.matches("odd value")


def raw(key: str, operator: str, *values: str) -> RawRequirement:
    return RawRequirement(key, operator, list(values))


def test_terms_are_alternatives() -> None:
    selector = compile_node_selector([([raw("a", "Exists"), raw("b", "Exists")], []), ([raw("c", "Exists")], [])])
    assert selector.matches("n", {"a": "", "b": ""})
    assert selector.matches("n", {"c": ""})
    assert not selector.matches("n", {"a": ""})
    assert selector.names is None


def test_empty_and_broken_terms_match_nothing() -> None:
    broken = [([raw("a", "Gt", "x")], []), ([], [raw("metadata.name", "In", "n", "m")]), ([], [])]
    selector = compile_node_selector(broken)
    assert selector.terms == ()
    assert not selector.matches("n", {"a": "1"})
    assert compile_node_selector([]).terms == ()
    assert compile_node_selector([]).names is None


def test_fields() -> None:
    assert compile_node_selector([([], [raw("metadata.name", "In", "n")])]).matches("n", {})
    assert not compile_node_selector([([], [raw("metadata.name", "NotIn", "n")])]).matches("n", {})
    assert compile_node_selector([([], [raw("metadata.uid", "In", "")])]).matches("n", {})


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([([], [raw("metadata.name", "In", "a")]), ([], [raw("metadata.name", "In", "b")])], {"a", "b"}),
        ([([], [raw("metadata.name", "In", "a"), raw("metadata.name", "In", "b")])], set()),
        ([([], [raw("metadata.name", "In", "a")]), ([raw("x", "Exists")], [])], None),
        ([([], [raw("metadata.name", "In", "a")]), ([], [])], None),
        ([([], [raw("metadata.name", "NotIn", "a")])], None),
    ],
)
def test_names(terms: list[tuple[list[RawRequirement], list[RawRequirement]]], names: set[str] | None) -> None:
    assert compile_node_selector(terms).names == names


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", operator="Equal", value="yes", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Equal"), False),
        (Toleration(value="yes"), True),
        (Toleration(key="gpu", operator="Gt", value="yes"), False),
    ],
)
def test_toleration(toleration: Toleration, *, tolerates: bool) -> None:
    assert toleration.tolerates(Taint("gpu", "yes", "NoSchedule")) is tolerates


def test_equal_taints_are_one_object() -> None:
    assert taint("a", "b", "c") is taint("a", "b", "c")


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a != b", {"a": "c"}, True),
        ("a!=b", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("! a", {"b": ""}, True),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (b, c)", {}, False),
        ("a notin (b)", {}, True),
        (" a = b , c ", {"a": "b", "c": "x"}, True),
        ("a=", {"a": ""}, True),
        ("in=x", {"in": "x"}, True),
    ],
)
def test_selectors_as_text(text: str, labels: dict[str, str], *, matches: bool) -> None:
    selector = parse_label_selector(text)
    assert selector is not None
    assert selector.matches(labels) is matches


@pytest.mark.parametrize("text", ["", "  "])
def test_no_text_is_no_selector(text: str) -> None:
    assert parse_label_selector(text) is None
