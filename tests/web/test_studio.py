"""The curator's page: who is let in, and a release made by clicking, in a real browser on a real server."""

import http.client
import json
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chromium import Page
from dpcube import Domain
from dpcube.cli import commands
from dpcube.core.ledger.ledger import Ledger
from dpcube.curator import CsvDialect
from dpcube.curator.check import check
from dpcube.release import Release
from dpcube.web.loopback import LoopbackServer
from dpcube.web.loopback.access import HEADERS, KEY_HEADER
from dpcube.web.loopback.server import MAX_BODY
from dpcube.web.studio.session import StudioServer, StudioSession

HOSTILE = '<img src=x onerror="document.title=1">'
HEADER = f'age,sex,patient_id,"{HOSTILE.replace(chr(34), chr(34) * 2)}"\n'
AGE = {"name": "age", "type": "integer", "min": "0", "max": "99", "width": "10"}
SEX = {"name": "sex", "type": "category", "values": ["f", "m"]}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    rows = (f"{k % 90},{'fm'[k % 2]},{k % 700},v\n" for k in range(2000))
    path.write_text(HEADER + "".join(rows) + "300,x,1,v\n" * 50)
    return path


@pytest.fixture
def server(table: Path) -> Iterator[StudioServer]:
    made = StudioServer(StudioSession(table, csv=CsvDialect(), folder=table.parent))
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


Answered = tuple[int, dict[str, str], bytes]


class Client:
    """What a browser would send, or another would."""

    def __init__(self, server: LoopbackServer) -> None:
        self.port = int(server.server_address[1])
        self.host = f"127.0.0.1:{self.port}"
        self.let_in = {"Host": self.host, "Cookie": f"{server.access.cookie_name}={server.access.cookie}"}
        self.calling = self.let_in | {
            "Origin": f"http://{self.host}",
            KEY_HEADER: server.access.key,
            "Content-Type": "application/json",
        }

    def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body and "Content-Length" not in headers:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body)
        answer = connection.getresponse()
        told = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return told

    def call(self, action: str, **request: object) -> dict[str, Any]:
        status, _, content = self.send("POST", f"/do/{action}", self.calling, json.dumps(request).encode())
        return {"status": status, **json.loads(content)}


# --- who is let in ------------------------------------------------------------------------------------------------


def test_the_token_opens_the_page_once(server: StudioServer) -> None:
    client = Client(server)
    path = server.access.address.partition(client.host)[2]
    assert client.send("GET", "/?token=wrong", {"Host": client.host})[0] == 403
    status, headers, page = client.send("GET", path, {"Host": client.host})
    assert status == 200
    assert server.access.key in page.decode()
    cookie = headers["Set-Cookie"]
    assert cookie.startswith(f"{server.access.cookie_name}={server.access.cookie};")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    again, headers, page = client.send("GET", path, {"Host": client.host})
    assert again == 403
    assert "Set-Cookie" not in headers
    assert server.access.key not in page.decode()
    status, _, page = client.send("GET", "/", client.let_in)  # a reload
    assert status == 200
    assert server.access.key not in page.decode()  # the key is given with the token alone


def test_of_many_who_come_with_the_token_at_once_one_is_let_in(server: StudioServer) -> None:
    client = Client(server)
    path = server.access.address.partition(client.host)[2]
    with ThreadPoolExecutor(20) as pool:
        told = list(pool.map(lambda _: client.send("GET", path, {"Host": client.host})[0], range(40)))
    assert sorted(told) == [200] + [403] * 39


@pytest.mark.parametrize(
    "change",
    [
        {"Cookie": ""},
        {"Cookie": "NAME=wrong"},
        {"Cookie": "\u00e9"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:1"},
        {KEY_HEADER: ""},
        {KEY_HEADER: "wrong"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_a_call_that_is_not_the_page_s_is_refused(server: StudioServer, change: dict[str, str]) -> None:
    client = Client(server)
    assert client.send("POST", "/do/table", client.calling, b"{}")[0] == 200
    change = {name: value.replace("NAME", server.access.cookie_name) for name, value in change.items()}
    assert client.send("POST", "/do/table", client.calling | change, b"{}")[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "[::1]", ""])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_host_s_name_is_refused(server: StudioServer, host: str, method: str) -> None:
    client = Client(server)
    change = {"Host": host, "Origin": f"http://{host}"}
    path = server.access.address.partition(client.host)[2] if method == "GET" else "/do/table"
    assert client.send(method, path, client.calling | change, b"{}" if method == "POST" else b"")[0] == 421
    assert server.access.use(server.access.token)  # a refused visit does not use the token up


@pytest.mark.parametrize(
    ("method", "path", "change", "body", "status"),
    [
        ("POST", "/do/nothing", {}, b"{}", 404),
        ("POST", "/do/__class__", {}, b"{}", 404),
        ("POST", "table", {}, b"{}", 404),
        ("GET", "/../session.py", {}, b"", 404),
        ("GET", "/studio.js?x", {}, b"", 200),
        ("POST", "/do/table", {"Content-Type": "text/plain"}, b"{}", 415),
        ("POST", "/do/table", {"Content-Type": "application/x-www-form-urlencoded"}, b"{}", 415),
        ("POST", "/do/table", {"Content-Length": str(MAX_BODY + 1)}, b"{}", 413),
        ("POST", "/do/table", {"Content-Length": "-1"}, b"{}", 411),
        ("POST", "/do/table", {}, b"[]", 400),
        ("POST", "/do/table", {}, b"{" * 100_000, 400),
        ("POST", "/do/table", {}, b"\xff", 400),
        ("PUT", "/do/table", {}, b"{}", 501),
        ("OPTIONS", "/do/table", {}, b"", 501),
    ],
)
def test_what_the_page_does_not_send_is_refused_and_every_answer_is_guarded(
    server: StudioServer, method: str, path: str, change: dict[str, str], body: bytes, status: int
) -> None:
    client = Client(server)
    told, headers, _ = client.send(method, path, client.calling | change, body)
    assert told == status
    assert headers.items() >= HEADERS.items()
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert not {name for name in headers if name.startswith("Access-Control")}


def test_the_page_is_on_loopback_only(server: StudioServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError, match=r".*"):
            socket.create_connection((str(address), server.server_address[1]), timeout=2)


def test_secrets_are_not_shown(server: StudioServer) -> None:
    shown = repr(server.access) + repr(server.session)
    assert not [secret for secret in (server.access.token, server.access.cookie, server.access.key) if secret in shown]


# --- what can be done ---------------------------------------------------------------------------------------------


def wanted(**more: object) -> dict[str, Any]:
    return {
        "attributes": [AGE, SEX],
        "queries": ["", ""],
        "rows": "2000",
        "epsilon": "1",
        "domain_file": "d.toml",
        "output": "r.dpcube",
        **more,
    }


def test_a_table_is_shown_by_names_and_types_alone(server: StudioServer) -> None:
    told = Client(server).call("table")
    assert [column["name"] for column in told["columns"]] == ["age", "sex", "patient_id", HOSTILE]
    assert not told["looked"]
    assert all(not attribute.keys() & {"min", "max", "values"} for attribute in told["attributes"])
    assert "patient_id" not in [attribute["name"] for attribute in told["attributes"]]  # whom to protect


def test_a_domain_saved_here_is_that_of_a_file(server: StudioServer, table: Path) -> None:
    assert Client(server).call("save", **wanted())["status"] == 200
    saved = Domain.load(table.parent / "d.toml")
    assert saved.names == ("age", "sex")
    assert saved.shape == (10, 2)
    assert not saved.drafted_from_data
    again = Client(server).call("save", **wanted())
    assert (again["status"], "exists; choose another name" in again["error"]) == (422, True)


def test_after_a_look_at_values_every_domain_is_marked_and_must_be_signed(server: StudioServer, table: Path) -> None:
    client = Client(server)
    looked = client.call("look", columns=["age", "sex"])
    assert [attribute["name"] for attribute in looked["attributes"]] == ["age", "sex"]
    assert looked["attributes"][0]["max"] == "300"
    assert client.call("save", **wanted())["status"] == 200  # whatever the page says of it
    draft = table.parent / "d.toml"
    assert Domain.load(draft).drafted_from_data
    assert draft.stat().st_mode & 0o077 == 0
    refused = client.call("prepare", **wanted())
    assert (refused["status"], "signed_public_by" in refused["error"]) == (422, True)
    signed = wanted(signed_public_by="The Owner", domain_file="signed.toml")
    assert client.call("save", **signed)["status"] == 200
    assert Domain.load(table.parent / "signed.toml").signed_public_by == "The Owner"
    assert client.call("prepare", **signed)["status"] == 200


def test_a_signature_without_a_look_marks_nothing(server: StudioServer, table: Path) -> None:
    assert Client(server).call("save", **wanted(signed_public_by="x"))["status"] == 200
    saved = Domain.load(table.parent / "d.toml")
    assert (saved.drafted_from_data, saved.signed_public_by) == (False, None)


def test_the_look_at_rows_is_that_of_check(server: StudioServer, table: Path) -> None:
    told = Client(server).call("check", **wanted())
    assert Client(server).call("save", **wanted())["status"] == 200
    found = check(table, Domain.load(table.parent / "d.toml"))
    assert [tuple(row[end] for end in told["ends"]) for row in told["looks"]] == [look.shares for look in found.looks]
    assert told["looks"][0]["dropped"] == "under 10%"
    assert told["counted"] == found.counted
    assert not re.search(r"\d{2,}", json.dumps(told["looks"]).replace("10%", ""))  # no exact number


def test_a_plan_needs_a_typed_number_of_rows(server: StudioServer) -> None:
    told = Client(server).call("plan", **wanted(rows=""))
    assert (told["status"], told["error"]) == (422, "rows is empty; type it")


@pytest.mark.slow
def test_a_plan_predicts_less_error_with_more_epsilon(server: StudioServer) -> None:
    client = Client(server)
    little, much = (client.call("plan", **wanted(epsilon=epsilon))["predictions"] for epsilon in ("0.1", "2"))
    assert {row["question"] for row in little} == {"ranges", "cells", "marginals", "total"}
    for low, high in zip(little, much, strict=True):
        assert float(low["error"].replace(",", "")) > float(high["error"].replace(",", ""))


def test_nothing_is_spent_without_a_ticket_and_the_typed_epsilon(server: StudioServer, table: Path) -> None:
    client = Client(server)
    client.call("save", **wanted())
    assert "not prepared" in client.call("release", ticket="x", typed_epsilon="1")["error"]
    first = client.call("prepare", **wanted())
    second = client.call("prepare", **wanted(output="other.dpcube"))
    assert "ticket was used" in client.call("release", ticket=first["ticket"], typed_epsilon="1")["error"]
    retyped = client.call("release", ticket=second["ticket"], typed_epsilon="1.0")
    assert "type epsilon as prepared: 1" in retyped["error"]
    assert "ticket was used" in client.call("release", ticket=second["ticket"], typed_epsilon="1")["error"]
    assert not (table.parent / "visits.ledger").exists()
    assert not list(table.parent.glob("*.dpcube"))


def test_a_release_charges_the_ledger_once(server: StudioServer, table: Path) -> None:
    client = Client(server)
    unit = {"unit": "patient_id", "max_rows": "3", "total": "1.5", "purpose": "a test"}
    client.call("save", **wanted())
    told = client.call("prepare", **wanted(**unit))
    assert (told["left"], told["left_after"]) == ("3/2", "1/2")
    assert "--unit patient_id --max-rows 3" in told["command"]
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: client.call("release", ticket=told["ticket"], typed_epsilon="1"), range(2)))
    assert sorted(answer["status"] for answer in both) == [200, 422]
    made = Release.open(table.parent / "r.dpcube")
    assert (made.provenance.unit, made.provenance.max_rows, made.provenance.ledger) == ("patient_id", 3, True)
    statement = Ledger(table.parent / "visits.ledger").statement()
    assert statement.spent == 1
    assert {charge.digest for charge in statement.charges} == {made.digest}
    assert {charge.purpose for charge in statement.charges} == {"a test"}
    refused = client.call("prepare", **wanted(**unit, output="again.dpcube"))
    assert "1/2 of 3/2 is left" in refused["error"]


def test_the_command_that_is_shown_makes_the_same_release(server: StudioServer, table: Path) -> None:
    client, odd = Client(server), "it's $(touch f) & co"
    client.call("save", **wanted())
    more = {"unit": "patient_id", "max_rows": "2", "total": "3", "purpose": odd, "queries": ["short", ""]}
    told = client.call("prepare", **wanted(**more))
    made = CliRunner().invoke(commands, shlex.split(told["command"])[1:])
    assert made.exit_code == 0, made.output
    assert Ledger(table.parent / "visits.ledger").statement().charges[0].purpose == odd
    by_command = Release.open(table.parent / "r.dpcube")
    ticket = client.call("prepare", **wanted(**more, output="s.dpcube"))["ticket"]
    assert client.call("release", ticket=ticket, typed_epsilon="1")["status"] == 200
    by_page = Release.open(table.parent / "s.dpcube")
    assert by_page.domain == by_command.domain
    assert by_page.provenance == by_command.provenance
    assert by_page.provenance.parameters["queries"] == "short, groups"


def test_a_domain_file_that_says_other_than_the_page_is_refused(server: StudioServer, table: Path) -> None:
    client = Client(server)
    client.call("save", **wanted())
    other = wanted(attributes=[{**AGE, "width": "20"}, SEX])
    assert "differs from the page" in client.call("prepare", **other)["error"]
    ticket = client.call("prepare", **wanted())["ticket"]
    (table.parent / "d.toml").write_text((table.parent / "d.toml").read_text().replace("10", "20"))
    assert "has changed since the preparation" in client.call("release", ticket=ticket, typed_epsilon="1")["error"]
    assert not (table.parent / "visits.ledger").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attributes": [{**AGE, "min": "0; x"}]}, "attribute 'age': min must be a number, got '0; x'"),
        ({"attributes": [{**AGE, 'min = 1\n"x"': "1"}]}, "an attribute has no key"),
        ({"attributes": [{"name": "d", "type": "date", "start": "soon", "end": "2026-01-01"}]}, "start must be a date"),
        ({"attributes": []}, "at least one attribute"),
        ({"attributes": "x"}, "attributes must be a list"),
        ({"attributes": [{**SEX, "values": [{"a": 1}]}]}, "text, true or false"),
        ({"domain_file": "d.txt"}, "a name that ends in .toml"),
        ({"domain_file": "none/d.toml"}, "there is no directory"),
        ({"domain_file": "\0.toml"}, "a name that ends in .toml"),
        ({"domain_file": "x" * 300 + ".toml"}, "cannot write"),
        ({"domain_file": 5}, "domain file is empty"),
    ],
    ids=str,
)
def test_a_form_that_declares_nothing_valid_is_refused(
    server: StudioServer, change: dict[str, object], words: str
) -> None:
    told = Client(server).call("save", **wanted(**change))
    assert told["status"] == 422
    assert words in told["error"]
    assert "\n" not in told["error"]


@pytest.mark.slow
def test_fifty_clients_at_once_are_answered_in_bounded_memory(server: StudioServer) -> None:
    client = Client(server)
    asked = json.dumps(wanted()).encode()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    idle = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(10)]  # that say nothing

    def visit(number: int) -> list[int]:
        sent = (("GET", "/studio.js", client.let_in, b""), ("POST", "/do/size", client.calling, asked))
        return [client.send(*sent[k % 2])[0] for k in range(number, number + 10)]

    with ThreadPoolExecutor(50) as pool:
        told = [status for statuses in pool.map(visit, range(50)) for status in statuses]
    for connection in idle:
        connection.close()
    assert told == [200] * 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB, of 500 answers


# --- by clicking --------------------------------------------------------------------------------------------------


@pytest.fixture
def started(table: Path) -> Iterator[str]:
    """The address that `dpcube studio` prints."""
    command = [sys.executable, "-m", "dpcube", "studio", table.name]
    with subprocess.Popen(command, cwd=table.parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().rpartition(" ")[2].strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.slow
def test_a_release_is_made_by_clicking(page: Page, started: str, table: Path) -> None:
    page.resize(1200, 900)
    page.open(started)
    page.wait("document.body.dataset.ready")
    assert page.run("location.search") == ""
    assert HOSTILE in page.text("#columns")
    assert page.run("document.title") == "dpcube studio"
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("document.querySelector('#rows').value + document.querySelector('#epsilon').value") == ""
    page.click("#take-0")
    for key, text in (("min", "0"), ("max", "99"), ("width", "10")):
        page.type(f".column:nth-child(1) [data-key={key}]", text)
    page.click("#take-1")
    page.type(".column:nth-child(2) [data-key=values]", "f\nm")
    page.wait("document.querySelector('#size').textContent.startsWith('10 \\u00d7 2 = 20 cells')")
    page.type("#rows", "2000")
    page.type("#epsilon", "1")
    page.wait("document.querySelectorAll('#plan tbody tr').length === 4", seconds=120)
    assert "one value of an attribute" in page.text("#plan")
    said = page.run("document.querySelector('#plan tbody td:nth-child(3)').textContent")
    page.type("#epsilon", "2")
    page.wait(f"document.querySelector('#plan tbody td:nth-child(4)').textContent === {json.dumps(said)}", seconds=120)
    assert page.run("document.querySelector('#plan tbody td:nth-child(3)').textContent") != said
    page.type("#epsilon", "1")
    page.click("#check")
    page.wait("document.querySelectorAll('#looks tbody tr').length === 2")
    assert "under 10%" in page.text("#looks")
    page.click("#save")
    page.wait("document.querySelector('#saved').textContent.includes('wrote')")
    assert Domain.load(table.parent / "domain.toml").shape == (10, 2)
    page.click("#prepare")
    page.wait("document.querySelector('#confirm').open")
    assert f"dpcube release {table} --domain" in page.text("#summary")
    assert not (table.parent / "visits.ledger").exists()
    page.type("#typed", "1")
    page.click("#spend")
    page.wait("document.querySelector('#done').textContent.includes('The ledger was charged')")
    made = Release.open(table.parent / "release.dpcube")
    assert made.digest in page.text("#done")
    assert Ledger(table.parent / "visits.ledger").statement().spent == 1
    assert page.complaints() == []


@pytest.mark.slow
def test_a_reload_is_let_in_and_a_second_browser_is_not(page: Page, started: str, table: Path) -> None:
    page.resize(390, 844)
    page.open(started)
    page.wait("document.body.dataset.ready")
    page.open(started.partition("?")[0])
    page.wait("document.body.dataset.ready")
    assert page.run("document.documentElement.scrollWidth") <= 390
    page.open(started)
    assert "opens once" in page.text()


@pytest.mark.slow
def test_a_look_at_values_fills_the_form_and_asks_for_a_name(page: Page, started: str) -> None:
    page.open(started)
    page.wait("document.body.dataset.ready")
    assert page.run("document.querySelector('#look').disabled")
    assert not page.run("document.querySelector('#sign-line').checkVisibility()")
    assert not page.run("document.querySelector('#max-rows').checkVisibility()")
    page.click("#take-0")
    page.click("#allow-look")
    page.click("#look")
    page.wait("document.querySelector('.column:nth-child(1) [data-key=max]')?.value === '300'")
    assert page.run("document.querySelector('#sign-line').checkVisibility()")
