"""`flatfed deploy init`: what it writes, with which modes, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from cli.command import flatfed, refused
from flatfed.core.configuration.settings import about_settings, defaults
from flatfed.deploy.deployment import Deployment
from flatfed.deploy.initialise import initialise

SITES = ("hospital-a", "hospital-b")
SECRETS = ["authority/ca.key", "server/server.key", "server/superexec.secret", *(f"sites/{s}/node.key" for s in SITES)]
PRIVATE_FOLDERS = ["authority", "server", "server/flower", "sites", *(f"sites/{site}" for site in SITES)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "fed"
    hosts = ("--host", "fed.example.org", "--host", "192.0.2.7")
    outcome = flatfed("deploy", "init", folder, "--sites", ",".join(SITES), *hosts, "--days", 90)
    assert (outcome.code, outcome.err) == (0, "")
    assert str(folder / "authority") in outcome.out
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# --- modes and secrets ------------------------------------------------------------------------------------------------


def test_secrets_are_their_owners(folder: Path) -> None:
    assert {name: oct(mode(folder / name)) for name in SECRETS} == dict.fromkeys(SECRETS, "0o600")
    assert {name: oct(mode(folder / name)) for name in PRIVATE_FOLDERS} == dict.fromkeys(PRIVATE_FOLDERS, "0o700")


def test_modes_do_not_depend_on_the_mask(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; os.umask(0)\n"
        "from flatfed.deploy.kit_files import PRIVATE, PRIVATE_FOLDER, make_folder, write_new\n"
        "write_new(make_folder(Path(sys.argv[1]), PRIVATE_FOLDER) / 'key', 'x', PRIVATE)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "kit")], check=True)
    assert (mode(tmp_path / "kit"), mode(tmp_path / "kit" / "key")) == (0o700, 0o600)


def test_private_keys_are_nowhere_else(folder: Path) -> None:
    holders = [str(path.relative_to(folder)) for path in files(folder) if b"PRIVATE KEY" in path.read_bytes()]
    assert sorted(holders) == sorted(name for name in SECRETS if name.endswith(".key"))
    secret = (folder / "server/superexec.secret").read_bytes()
    assert [path.name for path in files(folder) if secret in path.read_bytes()] == ["superexec.secret"]


def test_git_leaves_keys_out(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "fed"
    shutil.copytree(folder, copy)
    subprocess.run(["git", "init", "-q", str(copy)], check=True)
    subprocess.run(["git", "-C", str(copy), "add", "-A"], check=True)
    listed = subprocess.run(["git", "-C", str(copy), "ls-files"], check=True, capture_output=True, text=True).stdout
    assert "server/superlink.sh" in listed.split()
    assert set(SECRETS) & set(listed.split()) == set()


def test_scripts_can_be_run_and_read_by_sh(folder: Path) -> None:
    scripts = [path for path in files(folder) if path.suffix == ".sh"]
    assert len(scripts) == 5 + 2 * len(SITES)
    for script in scripts:
        assert mode(script) == 0o755
        subprocess.run(["/bin/sh", "-n", str(script)], check=True)


def test_no_mark_of_a_template_is_left(folder: Path) -> None:
    for path in files(folder):
        assert re.search(rb"@[a-z_]+@", path.read_bytes()) is None, path


# --- contents ---------------------------------------------------------------------------------------------------------


def test_a_site_gets_its_own_key_and_no_other_secret(folder: Path) -> None:
    for site in SITES:
        kit = folder / "sites" / site
        assert sorted(path.name for path in files(kit)) == [
            "README.md",
            "ca.crt",
            "deploy.json",
            "flatfed-site.service",
            "flower-supernode.service",
            "flwr-clientapp",
            "node.key",
            "node.key.pub",
            "site.sh",
            "site.yaml",
            "supernode.sh",
        ]
        assert (kit / "ca.crt").read_bytes() == (folder / "server/ca.crt").read_bytes()
        assert (kit / "node.key.pub").read_bytes() == (folder / f"server/keys/{site}.pub").read_bytes()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen here")
def test_keys_are_as_ssh_keygen_reads_them(folder: Path) -> None:
    record = json.loads((folder / "deploy.json").read_text())
    for site in SITES:
        key = folder / "sites" / site / "node.key"
        listed = subprocess.run(["ssh-keygen", "-l", "-f", key], check=True, capture_output=True, text=True).stdout
        assert listed == f"384 {record['sites'][site]} {site} (ECDSA)\n"
        half = subprocess.run(["ssh-keygen", "-y", "-f", key], check=True, capture_output=True, text=True).stdout
        assert half.split()[:2] == (folder / f"server/keys/{site}.pub").read_text().split()[:2]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_certificates_are_as_openssl_reads_them(folder: Path) -> None:
    server, authority = folder / "server/server.crt", folder / "server/ca.crt"
    subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", authority, server], check=True, capture_output=True)
    command = ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", server]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    record = json.loads((folder / "deploy.json").read_text())
    assert shown.strip().partition("=")[2] == record["certificates"]["server"]


def test_the_record(folder: Path) -> None:
    record = json.loads((folder / "deploy.json").read_text())
    assert record["hosts"] == ["fed.example.org", "192.0.2.7"]
    assert (record["address"], record["port"], record["superlink_port"]) == ("fed.example.org:8000", 8000, 8001)
    assert list(record["sites"]) == list(SITES)
    assert {"flatfed", "flwr", "torch"} == record["versions"].keys()
    copies = [folder / "server/deploy.json", *(folder / "sites" / site / "deploy.json" for site in SITES)]
    assert all(json.loads(path.read_text()) == record for path in copies)


def test_the_app(folder: Path) -> None:
    project = tomllib.loads((folder / "app/pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    assert project["project"]["dependencies"] == []
    assert config["sites"] == "hospital-a,hospital-b"
    assert about_settings().keys() <= config.keys()
    for name, value in defaults().items():
        if name not in ("exchange_timeout", "evaluate_last"):
            assert config[name] == ("" if value is None else value)
    assert (config["rounds"], config["lr"], config["exchange_timeout"], config["method"]) == (100, 0.1, 600, "fedavg")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flower's own, at its import
def test_flower_can_pack_the_app(folder: Path) -> None:
    from flwr.cli.build import build_fab_from_disk
    from flwr.common.config import validate_config

    project = tomllib.loads((folder / "app/pyproject.toml").read_text())
    assert validate_config(project, check_module=False) == (True, [], [])
    assert build_fab_from_disk(folder / "app")


def test_a_site_is_configured_in_yaml(folder: Path) -> None:
    config = yaml.safe_load((folder / "sites/hospital-a/site.yaml").read_text())
    keys = ["site", "data", "data_options", "partition", "clients", "folder", "socket", "device", "limits"]
    assert list(config) == keys
    assert config["site"] == "hospital-a"
    limits = ["methods", "models", "parts", "code", "largest_message", "min_batch", "min_examples", "rounds_per_day"]
    assert list(config["limits"]) == limits
    assert config["socket"] in (folder / "sites/hospital-a/supernode.sh").read_text()


@pytest.mark.parametrize(
    ("service", "pause"), [("flatfed-site.service", "RestartSec=5\n"), ("flower-supernode.service", "RestartSec=70\n")]
)
def test_services_start_again(folder: Path, service: str, pause: str) -> None:
    unit = (folder / "sites/hospital-a" / service).read_text()
    assert "Restart=always\n" in unit
    assert pause in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_understands_the_services(folder: Path) -> None:
    units = [str(path) for path in files(folder) if path.suffix == ".service"]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if any(unit in line for unit in units)]
    assert told == []


def test_an_administrator_types_three_commands(folder: Path) -> None:
    text = (folder / "sites/hospital-a/README.md").read_text()
    commands = [line for line in text.partition("`node.key`")[0].splitlines() if line.startswith("    ")]
    assert len(commands) == 3
    assert "+cpu" not in commands[0]
    assert "flatfed site check" in text


def test_sites_come_in_everywhere_and_the_superlink_hears_this_machine_alone(folder: Path) -> None:
    assert "listen 8000 ssl;" in (folder / "server/proxy/nginx.conf").read_text()
    assert "--host 127.0.0.1" in (folder / "server/superlink.sh").read_text()
    assert "--superlink fed.example.org:8000" in (folder / "sites/hospital-a/supernode.sh").read_text()


def test_a_trial_stays_on_this_machine(tmp_path: Path) -> None:
    initialise(tmp_path / "fed", Deployment(("a",), port=8500))
    assert "listen 127.0.0.1:8500 ssl;" in (tmp_path / "fed/server/proxy/nginx.conf").read_text()


@pytest.mark.parametrize(
    ("hosts", "listened", "address"),
    [
        (("fed.example.org",), "8500", "fed.example.org:8500"),
        (("localhost", "127.0.0.1"), "127.0.0.1:8500", "localhost:8500"),
        (("2001:db8::7",), "[::]:8500 ipv6only=off", "[2001:db8::7]:8500"),
        (("::1", "localhost"), "[::1]:8500", "[::1]:8500"),
    ],
)
def test_addresses(hosts: tuple[str, ...], listened: str, address: str) -> None:
    deployment = Deployment(("a",), hosts, 8500)
    assert (deployment.listened_address, deployment.address) == (listened, address)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_nothing_is_written_over(folder: Path) -> None:
    before = {path: path.read_bytes() for path in files(folder)}
    refused(flatfed("deploy", "init", folder, "--sites", "a"), str(folder), "not empty")
    assert {path: path.read_bytes() for path in files(folder)} == before


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--sites", "A"], "'A'"),
        (["--sites", "a/b"], "'a/b'"),
        (["--sites", "../x"], "'../x'"),
        (["--sites", "a b"], "'a b'"),
        (["--sites", ","], "at least one site"),
        (["--sites", "a,b,a"], "'a' is named twice"),
        (["--sites", "a", "--host", "x;y"], "'x;y'"),
        (["--sites", "a", "--host", "$(date)"], "host name"),
        (["--sites", "a", "--port", "0"], "between 1 and 65535"),
        (["--sites", "a", "--port", "65535"], "between 1 and 65535"),
        (["--sites", "a", "--port", "80", "--superlink-port", "80"], "both 80"),
        (["--sites", "a", "--days", "0"], "days"),
        ([], "--sites"),
    ],
)
def test_what_cannot_be_used_is_refused(options: list[str], part: str, tmp_path: Path) -> None:
    refused(flatfed("deploy", "init", tmp_path / "fed", *options), part)
    assert not (tmp_path / "fed").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "fed").write_text("x")
    refused(flatfed("deploy", "init", tmp_path / "fed", "--sites", "a"), "is a file")


@pytest.mark.parametrize("package", ["flwr", "cryptography"])
@pytest.mark.parametrize("command", ["init", "check"])
def test_a_missing_extra_is_one_sentence(
    package: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    options = ["--sites", "a"] if command == "init" else []
    refused(flatfed("deploy", command, tmp_path / "fed", *options), package, "pip install 'flatfed[flower]'")
    assert not (tmp_path / "fed").exists()


def test_help_needs_nothing_of_flower() -> None:
    program = (
        "import sys; from flatfed.cli.main import main\n"
        "try: main(['deploy', 'init', '--help'])\n"
        "finally: assert not {'flwr', 'cryptography', 'torch'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_an_unknown_command_has_a_nearest_one() -> None:
    refused(flatfed("deploy", "chek"), "'check'")
