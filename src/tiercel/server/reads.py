"""Reads that wait on an event loop: a future for each, and an alarm for the driver that lives by no other."""

import asyncio

from tiercel.engine.handles import Found, Waiter
from tiercel.server.driver import Driver


class Reads:
    def __init__(self) -> None:
        self._futures: dict[Waiter, asyncio.Future[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def completed(self, waiter: Waiter) -> bool:
        """A wait has ended; whether it was one of these."""
        future = self._futures.pop(waiter, None)
        if future is not None and not future.done():
            future.set_result(None)
        return future is not None

    async def result(self, driver: Driver, waiter: Waiter) -> Found:
        """What the wait brings; who is cancelled meanwhile gives back what had come."""
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
    """Has the loop wake a driver when something is due."""

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
            driver.run(lambda: None)  # lets the time pass
            self.set(driver)
