"""Facts that the evaluator may be told besides policies and object: who asks, where, and what else is known.

Everything is optional. `berth policy eval --cases` takes these names in camelCase (docs/policy.md lists them).
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, field, structs

from podberth.model import wire
from podberth.model.mistakes import SHOWN, misfit, nearest
from podberth.model.selectors import LabelSelector, SelectorError, parse_label_selector
from podberth.policy.keys import Reserved

Pass = Literal["mutate", "validate"]


class OptionsError(ValueError):
    """Options that can't be read; the text names the field."""


class UserInfo(Struct, frozen=True):
    """The user who makes the request (AdmissionRequest.userInfo). It only tells real mirror pods from pretended
    ones.
    """

    username: str = ""
    groups: tuple[str, ...] = ()

    @property
    def is_node(self) -> bool:
        """Return whether the user is a kubelet."""
        return self.username.startswith("system:node:") or "system:nodes" in self.groups


class Options(Struct, frozen=True, rename="camel"):
    """`live_schedulers` None: not known. `owner_selectors`: what the object's owners find their objects by,
    which changes nothing but what is said.
    """

    namespace: str = ""
    own_namespace: str = ""
    sub_resource: str = ""
    user_info: UserInfo | None = None
    pass_: Pass = field(default="mutate", name="pass")
    owner_selectors: tuple[LabelSelector, ...] = field(default=(), name="ownerSelector")
    allowed_prefixes: tuple[str, ...] = ()
    live_schedulers: frozenset[str] | None = None
    reserved_prefixes: tuple[str, ...] = ()
    reserve_known: bool = True
    """True if keys that are known to give rights (`keys`) are kept from policies."""
    stamp: bool = True
    """True if every pod gets its QoS class as an annotation; else only pods that have the annotation already do."""

    @property
    def reserved(self) -> Reserved:
        """The keys that policies may not write here."""
        return Reserved(self.reserve_known, self.reserved_prefixes, self.allowed_prefixes)


NO_OPTIONS = Options()


KNOWN = frozenset(Options.__struct_encode_fields__)


def unknown(document: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the first name in options that is not known; None: all are."""
    name = next((name for name in document if name not in KNOWN), None)
    if name is None:
        return None
    meant = nearest(name, sorted(KNOWN))
    return f"options.{name[:SHOWN]}: Unknown field: " + (
        f"did you mean {meant}?" if meant else f"want {', '.join(sorted(KNOWN))}"
    )


def parse(document: Mapping[str, Any] | None) -> Options:
    """Return options from JSON; null is as good as absent, and unknown ones are ignored (`unknown` finds them).

    Raises OptionsError.
    """
    given = {key: value for key, value in (document or {}).items() if value is not None}
    asked = given.pop("ownerSelector", [])
    try:
        found = msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise OptionsError(misfit(error, "options")) from None
    selectors = asked if isinstance(asked, list) else [asked]
    return structs.replace(
        found,
        owner_selectors=tuple(selector(item, "options.ownerSelector") for item in selectors),
        reserved_prefixes=tuple(prefix.lower() for prefix in found.reserved_prefixes),
    )


def selector(document: Any, path: str) -> LabelSelector:
    """Return the LabelSelector in a value, or that of a plain map of labels, as Services have.

    Raises OptionsError.
    """
    if isinstance(document, dict) and not document.keys() <= {"matchLabels", "matchExpressions"}:
        document = {"matchLabels": document}
    try:
        return parse_label_selector(msgspec.convert(document, wire.LabelSelector), path)
    except (SelectorError, msgspec.ValidationError) as error:
        raise OptionsError(str(error) if isinstance(error, SelectorError) else misfit(error, path)) from None
