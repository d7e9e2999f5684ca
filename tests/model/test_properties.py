"""The property tables against those of [MS-MQMQ] 2.3 (tests/vectors/codes.json)."""

import json
from pathlib import Path

import pytest

from tiercel.model import properties
from tiercel.model.properties import (
    ComputerProperty,
    ConnectedNetworkProperty,
    DeletionNoticeProperty,
    EnterpriseProperty,
    MachineProperty,
    ManagementMachineProperty,
    ManagementQueueProperty,
    MessageProperty,
    MqUserProperty,
    PrivateComputerProperty,
    Property,
    QueueProperty,
    RoutingLinkProperty,
    SettingsProperty,
    SiteProperty,
    UserProperty,
    VarType,
)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "codes.json").read_text("utf-8"))
PREFIXES: dict[str, type[Property]] = {
    "PROPID_MGMT_MSMQ_": ManagementMachineProperty,
    "PROPID_MGMT_QUEUE_": ManagementQueueProperty,
    "PROPID_QM_": MachineProperty,
    "PROPID_Q_": QueueProperty,
    "PROPID_SET_": SettingsProperty,
    "PROPID_S_": SiteProperty,
    "PROPID_CN_": ConnectedNetworkProperty,
    "PROPID_E_": EnterpriseProperty,
    "PROPID_U_": UserProperty,
    "PROPID_L_": RoutingLinkProperty,
    "PROPID_MQU_": MqUserProperty,
    "PROPID_COM_": ComputerProperty,
    "PROPID_D_": DeletionNoticeProperty,
}
ONLY_IN_MQ_H = "ENCRYPTION_PK_AES"


def vartype(words: str) -> int:
    number = 0
    for word in words.split("|"):
        number |= VarType[word]
    return number


def published(prefix: str) -> dict[str, tuple[int, int]]:
    return {
        name.removeprefix(prefix): (number, vartype(words))
        for name, (number, words) in VECTORS["properties"].items()
        if name.startswith(prefix)
    }


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_table_of_the_specification(prefix: str) -> None:
    ours = {each.name: (each.value, each.vartype) for each in PREFIXES[prefix] if each.name != ONLY_IN_MQ_H}
    assert ours
    assert ours == published(prefix)


def test_no_property_of_the_specification_is_missing() -> None:
    assert len(VECTORS["properties"]) == 186
    assert sum(len(published(prefix)) for prefix in PREFIXES) == 186


def test_the_properties_that_only_mq_h_has() -> None:
    typed: dict[Property, tuple[int, int]] = {
        MachineProperty.ENCRYPTION_PK_AES: (244, 0x1011),
        PrivateComputerProperty.VERSION: (5801, VarType.UI4),
        PrivateComputerProperty.DS_ENABLED: (5802, VarType.BOOL),
        MessageProperty.CLASS: (1, VarType.UI2),
        MessageProperty.MSGID: (2, 0x1011),
        MessageProperty.BODY: (9, 0x1011),
        MessageProperty.LABEL: (11, VarType.LPWSTR),
        MessageProperty.TIME_TO_BE_RECEIVED: (14, VarType.UI4),
        MessageProperty.SENDERID: (20, 0x1011),
        MessageProperty.AUTH_LEVEL: (24, VarType.UI4),
        MessageProperty.SRC_MACHINE_ID: (30, VarType.CLSID),
        MessageProperty.BODY_TYPE: (42, VarType.UI4),
        MessageProperty.XACTID: (52, 0x1011),
        MessageProperty.RESP_FORMAT_NAME: (54, VarType.LPWSTR),
        MessageProperty.DEST_FORMAT_NAME: (58, VarType.LPWSTR),
        MessageProperty.LOOKUPID: (60, VarType.UI8),
        MessageProperty.DEADLETTER_QUEUE: (67, VarType.LPWSTR),
        MessageProperty.LAST_MOVE_TIME: (75, VarType.UI4),
    }
    for member, numbers in typed.items():
        assert (member.value, member.vartype) == numbers
    assert [member.value for member in MessageProperty] == [*range(1, 56), *range(58, 71), 75]


def test_no_table_gives_two_names_to_one_number() -> None:
    for table in vars(properties).values():
        if isinstance(table, type) and issubclass(table, Property):
            assert len(table.__members__) == len(set(table))
