"""Settings of a controller, read and changed from afar."""

import asyncio

import pytest

from orbitmq.controller.config import ControllerConfig
from orbitmq.wire.headers import GetControllerConfig, UpdateControllerConfig
from unit.controller.talk import Talk


async def change(talk, text):
    return await talk.ask(UpdateControllerConfig(), text.encode())


async def test_settings_are_listed():
    body = (await Talk().ask(GetControllerConfig())).body.decode()
    assert "enableElectUncleanMaster=false\n" in body
    assert "controllerDLegerPeers=n0-127.0.0.1:9878\n" in body


async def test_a_change_is_on_disk_before_it_is_answered(tmp_path):
    talk = Talk(tmp_path / "new")
    assert (await change(talk, "scanInactiveMasterInterval=70\nenableElectUncleanMaster=true")).code == 0
    assert talk.service.config.scan_inactive_master_interval == 70
    saved = ControllerConfig.from_properties(tmp_path / "new" / "controller.properties")
    assert (saved.scan_inactive_master_interval, saved.enable_elect_unclean_master) == (70, True)


async def test_two_changes_at_the_same_time_are_both_kept(tmp_path):
    talk = Talk(tmp_path)
    await asyncio.gather(change(talk, "scanInactiveMasterInterval=70"), change(talk, "scanNotActiveBrokerInterval=80"))
    saved = ControllerConfig.from_properties(tmp_path / "controller.properties")
    assert (saved.scan_inactive_master_interval, saved.scan_not_active_broker_interval) == (70, 80)


@pytest.mark.parametrize(
    "text", ["configStorePath=/etc/passwd", "controllerStorePath=/", "aclFile=/x", "rocketmqHome=/", "configBlackList="]
)
async def test_no_path_and_no_text_is_changed_from_afar(tmp_path, text):
    talk = Talk(tmp_path)
    reply = await change(talk, f"scanInactiveMasterInterval=70\n{text}")
    assert (reply.code, reply.remark) == (16, "Can not update config in black list.")
    assert talk.service.config.scan_inactive_master_interval == 500


async def test_the_operator_may_forbid_more(tmp_path):
    talk = Talk(tmp_path, config_black_list="enableElectUncleanMaster")
    assert (await change(talk, "enableElectUncleanMaster=true")).code == 16


async def test_what_has_no_effect_is_taken_as_by_java(tmp_path):
    assert (await change(Talk(tmp_path), "electMasterMaxRetryCount=4")).code == 0


@pytest.mark.parametrize("text", ["scanInactiveMasterInterval=1", "enableElectUncleanMaster=perhaps", "x=\\uZZZZ"])
async def test_a_bad_value_is_refused(tmp_path, text):
    talk = Talk(tmp_path)
    assert (await change(talk, text)).code == 1
    assert not (tmp_path / "controller.properties").exists()


async def test_a_disk_that_refuses_leaves_the_settings_alone(tmp_path):
    (tmp_path / "file").touch()
    talk = Talk(tmp_path / "file")
    assert (await change(talk, "scanInactiveMasterInterval=70")).code == 1
    assert talk.service.config.scan_inactive_master_interval == 500
