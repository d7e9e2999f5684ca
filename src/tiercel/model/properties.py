"""The properties that `send` takes beside a text or bytes: those of `Message` that a sender may set."""

from datetime import timedelta
from typing import TypedDict
from uuid import UUID

from tiercel.model.format_name import FormatName
from tiercel.model.path_name import PathName


class Properties(TypedDict, total=False):
    label: str
    priority: int
    delivery: int
    body_type: int
    extension: bytes
    application_tag: int
    correlation_id: bytes
    message_class: int
    time_to_reach_queue: int | timedelta | None
    time_to_be_received: int | timedelta | None
    acknowledgements: int
    positive_journaling: bool
    negative_journaling: bool
    tracing: bool
    tracing_queue: UUID
    dead_letter_queue: PathName | None
    administration_queue: FormatName | None
    response_queue: FormatName | None
    administration_queues: tuple[FormatName, ...]
    response_queues: tuple[FormatName, ...]
    sender_id: bytes
    sender_id_type: int
    privacy_level: int
    encryption_algorithm: int
    connector_type: UUID
