"""Reads that wait on an event loop: one future each, and a timer for a driver without a daemon."""

import asyncio

from tiercel.engine.handles import Found, Waiter
from tiercel.server.driver import Driver


class Reads:
    def __init__(self) -> None:
        self._futures: dict[Waiter, asyncio.Future[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def completed(self, waiter: Waiter) -> bool:
        """Resolve the future of a wait that has ended; False if the wait is not one of these."""
        future = self._futures.pop(waiter, None)
        if future is not None and not future.done():
            future.set_result(None)
        return future is not None

    async def result(self, driver: Driver, waiter: Waiter) -> Found:
        """The result of a wait. Cancelling it returns a message that has arrived already."""
        if not waiter.is_done:
            future = self._futures[waiter] = asyncio.get_running_loop().create_future()
            try:
                await future
            except asyncio.CancelledError:
                self._futures.pop(waiter, None)
                driver.withdraw(waiter)
                raise
        return waiter.result()


class Alarm:
    """Wakes a driver at its next deadline."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def set(self, driver: Driver) -> None:
        self.cancel()
        seconds = driver.seconds_to_deadline()
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._ring, driver)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self, driver: Driver) -> None:
        if driver.is_open:
            driver.run(lambda: None)  # processes what is due
            self.set(driver)
