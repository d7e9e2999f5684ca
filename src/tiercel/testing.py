"""The fixtures of `tiercel.pytest_plugin`, for `pytest_plugins = ["tiercel.testing"]`.

pytest finds the plugin by itself where Tiercel is installed; this module stays for suites that name it.
"""

from tiercel.pytest_plugin import RunningDaemon, queue_manager, tiercel_daemon

__all__ = ["RunningDaemon", "queue_manager", "tiercel_daemon"]
