"""`berth explain --cases`: a line of JSON out for each line of JSON in, whatever is wrong with some of them."""

import msgspec

from podberth.cli.errors import WRONG
from podberth.cli.inputs import lines
from podberth.cli.output import as_json
from podberth.explain.cases import answer
from podberth.explain.objects.documents import ObjectError, parse
from podberth.framework.config import ConfigError
from podberth.framework.status import PluginError
from podberth.model.mistakes import misfit


def print_cases(path: str) -> int:
    """Answer every case of a file; the exit code says whether all of them could be read.

    Raises InputError when the file itself can't be.
    """
    code = 0
    for number, line in enumerate(lines(path), start=1):
        name: object = f"line {number}"
        try:
            case = msgspec.json.decode(line)
            if not isinstance(case, dict):
                raise ObjectError("expected a case: {id, config, objects, pod}")
            name = case.get("id", name)
            result = {"id": name, "got": answer(case, lambda text: parse(text.encode()))}
        except (msgspec.DecodeError, RecursionError) as error:
            result = {"id": name, "error": misfit(error)}
            code = WRONG
        except (ConfigError, ObjectError, PluginError) as error:
            result = {"id": name, "error": " | ".join(str(error).splitlines())}
            code = WRONG
        as_json(msgspec.json.encode(result))
    return code
