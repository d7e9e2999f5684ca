"""The pages of the documentation that are made from the code itself, so that they cannot drift from it."""

from collections.abc import Callable

from . import commands, configuration, conformance, errors, examples, http_api, metrics, spark

PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands.page,
    "reference/exit-codes.md": commands.exit_codes,
    "reference/configuration.md": configuration.page,
    "reference/errors.md": errors.page,
    "reference/http.md": http_api.page,
    "reference/metrics.md": metrics.page,
    "reference/spark.md": spark.page,
    "reference/conformance.md": conformance.page,
    "examples.md": examples.page,
}
