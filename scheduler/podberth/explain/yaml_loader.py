"""YAML as the API's clients read it."""

import json
import re
from typing import Any

import yaml

DIGITS = "integer string conversion"
"""Part of what Python says of a number with thousands of digits."""
_DEEPEST = 500
"""Levels that a document may have."""
_MOST_MERGED = 500_000
"""Entries that its mappings may take over from others, in all."""
_MERGE, _NULL, _BOOL, _STR = (f"tag:yaml.org,2002:{name}" for name in ("merge", "null", "bool", "str"))


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as the API's clients read it: no dates, no base-60 numbers, no key twice in one mapping; keys are texts."""

    _depth = 0
    _merged = 0

    def descend_resolver(self, node: yaml.Node | None, index: Any) -> None:
        """Called before each value is read. What reads them calls itself for each level, until the stack is full."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """Called after each value."""
        self._depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Take over what a mapping merges (`<<`). It counts like aliases: a list of one alias nine times, in each of
        a few mappings, makes thousands of millions of entries.
        """
        for key, value in node.value:
            if key.tag == _MERGE:
                for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(each, yaml.MappingNode):
                        self.flatten_mapping(each)
                        self._merged += len(each.value)
                        if self._merged > _MOST_MERGED:
                            raise yaml.constructor.ConstructorError(
                                None, None, "its merge keys expand beyond all bounds", key.start_mark
                            )
        super().flatten_mapping(node)

    def construct_document(self, node: yaml.Node) -> Any:
        """The values of a document, refusing those that are not what their tags say."""
        try:
            return super().construct_document(node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            many = DIGITS in str(error)
            said = "a number has too many digits" if many else "a value is not what its tag says, such as !!int"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping, refusing a key that is there twice: one of the values would be lost unnoticed."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.tag == _NULL:
                    raise yaml.constructor.ConstructorError(None, None, "a key is null: expected text", key.start_mark)
                if key.tag == _BOOL:
                    key.tag, key.value = _STR, str(self.bool_values[key.value.lower()]).lower()
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{json.dumps(key.value)} is there twice", key.start_mark
                    )
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_NOT_OURS = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
_PLAIN_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(?:0b[01]+|0x[0-9a-fA-F]+|0[0-7]+|0|[1-9][0-9]*)$"),
    "tag:yaml.org,2002:float": re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|nan)$"),
}
Loader.yaml_implicit_resolvers = {
    first: [(tag, _PLAIN_NUMBERS.get(tag, pattern)) for tag, pattern in resolvers if tag not in _NOT_OURS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
