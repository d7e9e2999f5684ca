"""The queue manager and its surroundings: defaults, durability tags and the rules of the model."""

from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest

from tiercel.model.codes import DirectoryServerType, Durability, OperatingSystemType, QueueManagerState
from tiercel.model.errors import (
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    PropertiesConflictError,
    PropertyNotAllowedError,
)
from tiercel.model.queue import DirectoryObject, durability
from tiercel.model.queue_manager import (
    ConnectedNetwork,
    Enterprise,
    InternalCertificate,
    PublicKey,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from tiercel.model.sid import SecurityIdentifier

ID = UUID("11111111-2222-3333-4444-555555555555")
ONE, TWO, THREE = UUID(int=1), UUID(int=2), UUID(int=3)
SID = SecurityIdentifier.parse("S-1-5-21-1-2-3-1000")


def queue_manager(**attributes: Any) -> QueueManager:
    return QueueManager(identifier=ID, computer_name="HOST", **attributes)


def site(identifier: UUID) -> Site:
    return Site(identifier=identifier, name=f"site-{identifier.int}")


class TestDefaults:
    def test_what_a_fresh_queue_manager_is(self) -> None:
        fresh = queue_manager()
        assert fresh.queue_manager_version == ""
        assert fresh.operating_system_type is OperatingSystemType.FOREIGN
        assert len(OperatingSystemType) == 6
        assert fresh.queue_manager_state is QueueManagerState.STOPPED
        assert fresh.initialization_retry_timer_duration_s == 120
        assert fresh.sequential_id == 0
        assert (fresh.last_domain, fresh.machine_domain_id) == (None, None)

    def test_quotas(self) -> None:
        assert queue_manager().queue_manager_quota_kib == 0x00100000
        assert queue_manager().journal_quota_kib == 0xFFFFFFFF

    def test_flags(self) -> None:
        fresh = queue_manager()
        off = (
            *(fresh.foreign_system, fresh.clustered, fresh.remote_access_server, fresh.supporting_server),
            *(fresh.routing_server, fresh.directory_server, fresh.directory_integrated),
            *(fresh.directory_offline, fresh.throttled, fresh.hardened_security),
            *(fresh.srmp_http_support, fresh.srmp_pgm_support),
        )
        assert not any(off)
        assert fresh.connection_active

    def test_lists_are_empty_and_its_own(self) -> None:
        one, other = queue_manager(), queue_manager()
        for name in (
            *("site_identifier_list", "connected_network_identifier_list", "directory_server_list"),
            *("out_routing_server_identifier_list", "in_routing_server_identifier_list"),
            *("public_encryption_key_list", "public_signing_key_list", "site_collection"),
        ):
            assert getattr(one, name) == []
            assert getattr(one, name) is not getattr(other, name)

    def test_a_version_told_by_the_directory_is_kept(self) -> None:
        assert queue_manager(queue_manager_version="1.0").queue_manager_version == "1.0"

    def test_enterprise(self) -> None:
        enterprise = Enterprise(identifier=ID, name="corp")
        assert enterprise.default_time_to_live_s == 345600
        assert not enterprise.weakened_security


@pytest.mark.conformance("DMPR-014")
def test_only_a_directory_server_has_a_directory_server_type() -> None:
    assert [each.value for each in DirectoryServerType] == [
        "Standalone",
        "BackupSiteController",
        "PrimarySiteController",
        "PrimaryEnterpriseController",
    ]
    plain = queue_manager()
    assert plain.directory_server is False
    assert plain.directory_server_type is None
    for kind in DirectoryServerType:
        server = queue_manager(directory_server_type=kind)
        assert server.directory_server is True
        assert server.directory_server_type is kind
        server.directory_server_type = None
        assert server.directory_server is False


ENTITIES: list[type[DirectoryObject]] = [QueueManager, Enterprise, Site, RoutingLink, ConnectedNetwork, User]


@pytest.mark.parametrize("entity", ENTITIES)
def test_every_field_has_a_durability(entity: type[DirectoryObject]) -> None:
    for each in fields(entity):
        assert durability(entity, each.name) in Durability
    assert durability(entity, "identifier") is Durability.DIRECTORY


@pytest.mark.parametrize(
    "made",
    [
        queue_manager(),
        Enterprise(identifier=ID, name="corp"),
        site(ID),
        RoutingLink(identifier=ID),
        ConnectedNetwork(identifier=ID, name="lan"),
        User(identifier=ID, security_identifier=SID),
    ],
    ids=lambda made: type(made).__name__,
)
def test_an_identifier_cannot_be_changed(made: DirectoryObject) -> None:
    with pytest.raises(PropertyNotAllowedError):
        made.identifier = ONE
    assert made.identifier == ID


DURABILITIES = {
    Durability.DIRECTORY: (
        "computer_name qualified_computer_name queue_manager_version operating_system_type create_time"
        " queue_manager_quota_kib journal_quota_kib site_identifier_list directory_server_type clustered"
    ),
    Durability.PERSISTENT: (
        "last_domain directory_server_list directory_integrated srmp_http_support srmp_pgm_support"
        " hardened_security send_insecure_nacks initialization_retry_timer_duration_s sequential_id"
    ),
    Durability.VOLATILE: (
        "machine_domain_id directory_offline throttled connection_active queue_manager_state"
        " site_collection queue_collection system_journal_queue enterprise"
    ),
    Durability.COMPUTED: "directory_server",
}


@pytest.mark.parametrize("expected", DURABILITIES)
def test_durability_of_the_queue_manager(expected: Durability) -> None:
    for name in DURABILITIES[expected].split():
        assert durability(QueueManager, name) is expected


class TestRules:
    @pytest.mark.conformance("DMPR-010")
    def test_a_site_must_be_listed(self) -> None:
        manager = queue_manager()
        assert manager.site_identifier_list == []
        manager.site_identifier_list.append(ONE)
        manager.site_collection.append(site(ONE))
        manager.validate()
        manager.site_collection.append(site(TWO))
        with pytest.raises(IllegalPropertyValueError, match=f"queue manager HOST: .*site.*present: {TWO}"):
            manager.validate()

    @pytest.mark.parametrize("direction", ["out", "in"])
    def test_a_routing_server_must_be_listed(self, direction: str) -> None:
        servers = [QueueManager(identifier=ONE, computer_name="ROUTER")]
        listed = {f"{direction}_routing_server_identifier_list": [ONE, TWO]}
        collected = {f"{direction}_routing_server_collection": servers}
        queue_manager(**listed)
        queue_manager(**listed, **collected)
        with pytest.raises(IllegalPropertyValueError, match=f"{direction}-routing server"):
            queue_manager(**collected)

    @pytest.mark.conformance("DMPR-064")
    def test_no_two_sites_have_the_same_name(self) -> None:
        first = Site(
            identifier=ONE,
            name="Berlin",
            primary_site_controller="DC1",
            intra_site_replication_interval_s=2,
            inter_site_replication_interval_s=10,
            full_path="CN=Berlin,CN=Sites",
            foreign_site=True,
            public_signing_key_list=[PublicKey(provider_name="p", provider_type=1, key=b"k")],
            migrated_from_msmq10=True,
            security=b"descriptor",
        )
        loaded = {each.name: getattr(first, each.name) for each in fields(Site)}
        again = Site(**loaded)
        assert {name: getattr(again, name) for name in loaded} == loaded
        manager = queue_manager(site_identifier_list=[ONE, TWO], site_collection=[first])
        for name in ("Berlin", "BERLIN"):
            manager.site_collection[1:] = [Site(identifier=TWO, name=name)]
            with pytest.raises(IllegalPropertyValueError, match="the same name"):
                manager.validate()
        manager.site_collection[1:] = [Site(identifier=TWO, name="Bern")]
        manager.validate()

    @pytest.mark.conformance("DMPR-012")
    @pytest.mark.parametrize("direction", ["out", "in"])
    def test_routing_servers_are_those_of_the_directory_that_are_listed(self, direction: str) -> None:
        directory = {
            each: QueueManager(identifier=each, computer_name="ROUTER") for each in (ONE, TWO, THREE)
        }
        manager = queue_manager()
        listed: list[UUID] = getattr(manager, f"{direction}_routing_server_identifier_list")
        servers: list[QueueManager] = getattr(manager, f"{direction}_routing_server_collection")
        assert (listed, servers) == ([], [])
        listed += [ONE, TWO, UUID(int=4)]  # of the last one the directory knows nothing
        servers += [directory[each] for each in listed if each in directory]
        manager.validate()
        assert {server.identifier for server in servers} == {ONE, TWO}
        servers.append(directory[THREE])
        with pytest.raises(IllegalPropertyValueError, match=f"{direction}-routing server.*present: {THREE}"):
            manager.validate()

    def test_connected_networks_mirror_their_list(self) -> None:
        network = ConnectedNetwork(identifier=ONE, name="lan")
        queue_manager(connected_network_identifier_list=[ONE], connected_network_collection=[network])
        with pytest.raises(IllegalPropertyValueError, match="not in its list"):
            queue_manager(connected_network_collection=[network])
        with pytest.raises(IllegalPropertyValueError, match="not in the collection"):
            queue_manager(connected_network_identifier_list=[ONE])

    def test_without_a_directory_there_is_none_to_be_cut_off_from(self) -> None:
        queue_manager(directory_integrated=True, directory_offline=True)
        with pytest.raises(PropertiesConflictError):
            queue_manager(directory_offline=True)

    @pytest.mark.parametrize("name", ["", "A" * 16])
    def test_a_netbios_name_has_1_to_15_characters(self, name: str) -> None:
        assert QueueManager(identifier=ID, computer_name="A" * 15).computer_name
        with pytest.raises(IllegalPropertyValueError, match=f"present: {len(name)}, limit: 1 to 15"):
            QueueManager(identifier=ID, computer_name=name)

    @pytest.mark.parametrize(
        ("attribute", "high"),
        [
            ("queue_manager_quota_kib", 0xFFFFFFFF),
            ("journal_quota_kib", 0xFFFFFFFF),
            ("sequential_id", 2**64 - 1),
        ],
    )
    def test_ranges(self, attribute: str, high: int) -> None:
        for good in (0, high):
            queue_manager(**{attribute: good})
        for bad in (-1, high + 1):
            with pytest.raises(IllegalPropertyValueError, match=f"present: {bad}"):
                queue_manager(**{attribute: bad})


class TestRoutingLink:
    @pytest.mark.conformance("DMPR-066")
    def test_the_cost_is_from_1_to_999999(self) -> None:
        for good in (1, 999999):
            assert RoutingLink(identifier=ID, actual_cost=good).actual_cost == good
        for bad in (0, 1000000):
            with pytest.raises(IllegalPropertyValueError, match=f"present: {bad}, limit: 1 to 999999"):
                RoutingLink(identifier=ID, actual_cost=bad)

    @pytest.mark.conformance("DMPR-067")
    def test_references_match_the_identifiers(self) -> None:
        gate = QueueManager(identifier=THREE, computer_name="GATE")
        good: dict[str, Any] = {
            "site1_identifier": ONE,
            "site2_identifier": TWO,
            "site_gate_identifier_list": [THREE],
            "site1": site(ONE),
            "site2": site(TWO),
            "site_gate_collection": [gate],
        }
        link = RoutingLink(identifier=ID, description="a to b", full_path="CN=link", **good)
        assert (link.description, link.full_path) == ("a to b", "CN=link")
        mismatches: list[dict[str, Any]] = [
            {"site1": site(TWO)},
            {"site2": site(ONE)},
            {"site_gate_identifier_list": []},
            {"site_gate_collection": [QueueManager(identifier=ONE, computer_name="OTHER")]},
        ]
        for wrong in mismatches:
            with pytest.raises(IllegalPropertyValueError, match="routing link"):
                RoutingLink(identifier=ID, **(good | wrong))


def test_a_certificate_digest_has_16_bytes() -> None:
    user = User(identifier=ID, security_identifier=SID, certificate_digest_list=(bytes(16),))
    assert user.certificate_digest_list == (bytes(16),)
    with pytest.raises(IllegalPropertySizeError, match="present: 15 bytes, limit: 16 bytes"):
        User(identifier=ID, security_identifier=SID, certificate_digest_list=(bytes(15),))


@pytest.mark.conformance("DMPR-068")
def test_a_user_has_one_internal_certificate() -> None:
    manager, user = queue_manager(), User(identifier=ID, security_identifier=SID)
    for der in (b"first", b"second"):
        certificate = InternalCertificate(user=user, certificate=der)
        manager.internal_certificate_collection[user.identifier] = certificate
    assert [each.certificate for each in manager.internal_certificate_collection.values()] == [b"second"]
