"""Connections from generated kubeconfigs and service account files."""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import stat
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from podberth.kube import credential_plugins
from podberth.kube.connection import Connection
from podberth.kube.credential_plugins import Issued
from podberth.kube.errors import ConfigError
from podberth.kube.kubeconfig import connect, in_cluster
from tests.unit.kube.kubeconfigs import Authority, kubeconfig


def authorization(found: Connection) -> str | None:
    """The Authorization header of the next request."""
    if found.credentials.due():
        found.credentials.renew()
    return found.credentials.header


def test_a_context_gives_host_namespace_and_token(tmp_path: Path) -> None:
    """The plainest case; the slash at the server's end goes."""
    found = connect(kubeconfig(tmp_path, user={"token": "abc"}))
    assert (found.host, found.namespace, authorization(found)) == ("http://10.0.0.1:8080", "team", "Bearer abc")
    assert found.source == f"{tmp_path}/config (context one)"
    assert found.tls is None
    assert found.user_agent.startswith("berth/")


def test_basic_auth_and_impersonation(tmp_path: Path) -> None:
    """username and password become Basic; as, as-groups and as-user-extra become headers."""
    user = {"username": "u", "password": "p", "as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"x": ["1"]}}
    found = connect(kubeconfig(tmp_path, user=user))
    assert authorization(found) == f"Basic {base64.b64encode(b'u:p').decode()}"
    assert found.headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-x", "1"),
    )


def test_keys_of_extra_are_escaped(tmp_path: Path) -> None:
    """They stand in a header's name, where client-go escapes what is not legal there, and the % itself."""
    extra = {"example.com/team": ["a", "b"], "50%": ["c"], "a_b~c": ["d"], "ü": ["e"], "none": None}
    found = connect(kubeconfig(tmp_path, user={"as": "jane", "as-user-extra": extra}))
    assert sorted(found.headers) == [
        ("Impersonate-Extra-%C3%BC", "e"),
        ("Impersonate-Extra-50%25", "c"),
        ("Impersonate-Extra-a_b~c", "d"),
        ("Impersonate-Extra-example.com%2Fteam", "a"),
        ("Impersonate-Extra-example.com%2Fteam", "b"),
        ("Impersonate-User", "jane"),
    ]


def test_the_named_context_counts_and_so_does_the_first_file(tmp_path: Path) -> None:
    """--context wins over current-context; of several files in KUBECONFIG the first to say something counts."""
    first = kubeconfig(tmp_path, name="first", user={"token": "1"})
    two = [{"name": "two", "context": {"cluster": "d", "user": "v"}}]
    (tmp_path / "second").write_text(
        yaml.safe_dump(
            {
                "current-context": "two",
                "contexts": two,
                "clusters": [
                    {"name": "d", "cluster": {"server": "http://second"}},
                    {"name": "c", "cluster": {"server": "http://x"}},
                ],
                "users": [{"name": "v", "user": {"token": "2"}}, {"name": "u", "user": {"token": "x"}}],
            }
        )
    )
    empty = tmp_path / "empty"
    empty.write_text("")
    environ = {"KUBECONFIG": f"{empty}:{first}:{tmp_path}/absent:{tmp_path}/second"}
    found = connect(environ=environ)
    assert (found.host, authorization(found)) == ("http://10.0.0.1:8080", "Bearer 1")
    found = connect(context="two", environ=environ)
    assert (found.host, authorization(found), found.namespace) == ("http://second", "Bearer 2", "default")


def test_where_it_looks_and_in_which_order(tmp_path: Path) -> None:
    """KUBECONFIG, then ~/.kube/config, then the pod's account, else one line that names all of them."""
    (tmp_path / ".kube").mkdir()
    with pytest.raises(ConfigError, match=r"no cluster to talk to: .* and not in a pod"):
        connect(environ={"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"in-cluster configuration .*token"):
        connect(environ={"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"})
    kubeconfig(tmp_path / ".kube")
    assert connect(environ={"HOME": str(tmp_path)}).host == "http://10.0.0.1:8080"
    with pytest.raises(ConfigError, match="no such file"):
        connect(environ={"HOME": str(tmp_path), "KUBECONFIG": "/nowhere/at/all"})
    with pytest.raises(ConfigError, match="~nobody-of-that-name/config: no such file"):
        connect("~nobody-of-that-name/config")


def test_a_token_file_wins_and_is_read_again(tmp_path: Path) -> None:
    """tokenFile (relative to the kubeconfig) beats token, and a rotated file shows after ten seconds or a renewal."""
    (tmp_path / "t").write_text("old\n")
    found = connect(kubeconfig(tmp_path, user={"token": "static", "tokenFile": "t"}))
    assert authorization(found) == "Bearer old"
    (tmp_path / "t").write_text("new")
    assert authorization(found) == "Bearer old"
    found.credentials.renew()
    assert authorization(found) == "Bearer new"
    (tmp_path / "t").write_text("")
    with pytest.raises(ConfigError, match="expected one token, found nothing"):
        found.credentials.renew()
    assert authorization(found) == "Bearer new"


def test_in_cluster(tmp_path: Path, authority: Authority) -> None:
    """Host and port from the environment (IPv6 in brackets), token, CA and namespace from the projected volume."""
    (tmp_path / "token").write_text("tok")
    (tmp_path / "namespace").write_text("berth-system")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    files: dict[str, Any] = {"token_file": str(tmp_path / "token"), "ca_file": str(authority.cert)}
    found = in_cluster(**files, environ=environ)
    assert (found.host, found.namespace, found.source) == ("https://[fd00::1]:443", "berth-system", "in-cluster")
    assert authorization(found) == "Bearer tok"
    (tmp_path / "token").write_text("tok2")
    found.credentials.renew()
    assert authorization(found) == "Bearer tok2"
    with pytest.raises(ConfigError, match=r"in-cluster configuration .*not exist"):
        in_cluster(token_file=files["token_file"], ca_file=str(tmp_path / "none"), environ=environ)
    with pytest.raises(ConfigError, match=r"in-cluster configuration .*: https://x:9y: expected a URL \(Port"):
        in_cluster(**files, environ={"KUBERNETES_SERVICE_HOST": "x", "KUBERNETES_SERVICE_PORT": "9y"})


NO_URLS = ["http://user:secret@proxy:80a", "http://user:secret/x@proxy:80", "http://[proxy", "proxy:99999"]


@pytest.mark.parametrize("proxy", NO_URLS)
def test_a_proxy_of_the_environment_that_is_no_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """One line, which does not repeat a password."""
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, proxy)
    with pytest.raises(ConfigError, match="HTTPS_PROXY: expected a URL") as caught:
        connect(kubeconfig(tmp_path, cluster={"server": "https://10.0.0.1"}))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("proxy", NO_URLS)
def test_a_proxy_of_a_kubeconfig_that_is_no_url(tmp_path: Path, proxy: str) -> None:
    """One line, which does not repeat a password."""
    with pytest.raises(ConfigError, match=r"proxy-url.*: expected a URL") as caught:
        connect(kubeconfig(tmp_path, cluster={"server": "https://10.0.0.1", "proxy-url": proxy}))
    assert "secret" not in str(caught.value)


def test_a_static_token_is_read_anew_after_a_401(tmp_path: Path) -> None:
    """Renewing reads the kubeconfig again, so that `kubectl config set-credentials` helps a running process."""
    path = kubeconfig(tmp_path, user={"token": "one"})
    found = connect(path)
    kubeconfig(tmp_path, user={"token": "two"})
    assert authorization(found) == "Bearer one"
    found.credentials.renew()
    assert authorization(found) == "Bearer two"


def test_no_server_gets_the_credentials_of_another(tmp_path: Path) -> None:
    """After a 401 another context is the current one, or ours names another server."""

    def write(current: str, server: str, token: str) -> str:
        now: dict[str, Any] = {"current-context": current}
        return kubeconfig(
            tmp_path,
            contexts=[{"name": name, "context": {"cluster": name, "user": name}} for name in ("a", "b")],
            clusters=[
                {"name": "a", "cluster": {"server": server}},
                {"name": "b", "cluster": {"server": "http://b"}},
            ],
            users=[{"name": "a", "user": {"token": token}}, {"name": "b", "user": {"token": "of-b"}}],
            **now,
        )

    found = connect(write("a", "http://a", "one"))
    write("b", "http://a", "two")
    found.credentials.renew()
    assert authorization(found) == "Bearer two"
    write("a", "http://elsewhere", "three")
    with pytest.raises(ConfigError, match='expected the server "http://a", as at the start, found "http://elsewhere"'):
        found.credentials.renew()
    assert authorization(found) == "Bearer two"


def plugin(where: Path, body: str) -> dict[str, Any]:
    """An exec plugin (a Python script) as a user's `exec` entry; a relative command is relative to the kubeconfig."""
    script = where / "plugin.py"
    script.write_text(f"#!{sys.executable}\nimport json, os, pathlib, sys\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin.py",
        "args": ["get", "token"],
        "env": [{"name": "FLAVOUR", "value": "mint"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": "get it from the shop",
    }


PRINT = (
    "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', 'status': status}))"
)


def test_an_exec_plugin_gives_tokens_that_end(tmp_path: Path) -> None:
    """It gets its arguments, environment and the cluster; its token is used until the time it names."""
    ends = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    body = f"""
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = pathlib.Path("count"); n = int(count.read_text()) + 1 if count.exists() else 1; count.write_text(str(n))
token = "-".join([*sys.argv[1:], os.environ["FLAVOUR"], info["spec"]["cluster"]["server"], str(n)])
status = {{"token": token, "expirationTimestamp": "{ends}"}}
{PRINT}"""
    found = connect(kubeconfig(tmp_path, user={"exec": plugin(tmp_path, body)}))
    assert authorization(found) == "Bearer get-token-mint-http://10.0.0.1:8080/-1"
    assert not found.credentials.due()
    found.credentials.renew()
    assert authorization(found) == "Bearer get-token-mint-http://10.0.0.1:8080/-2"


def test_an_expired_plugin_token_is_due(tmp_path: Path) -> None:
    """A token that ends within seconds is asked for anew right away."""
    ends = (datetime.now(UTC) + timedelta(seconds=5)).isoformat()
    user = {"exec": plugin(tmp_path, f"status = {{'token': 't', 'expirationTimestamp': '{ends}'}}\n{PRINT}")}
    assert connect(kubeconfig(tmp_path, user=user)).credentials.due_in <= 1.0


def test_an_exec_plugin_may_give_a_certificate(tmp_path: Path, authority: Authority, issued: tuple[Path, Path]) -> None:
    """clientCertificateData and clientKeyData are PEM, and what the server is shown."""
    body = f"""
cert, key = pathlib.Path({str(issued[0])!r}).read_text(), pathlib.Path({str(issued[1])!r}).read_text()
status = {{"clientCertificateData": cert, "clientKeyData": key}}
{PRINT}"""
    cluster = {"server": "https://10.0.0.1", "certificate-authority": str(authority.cert)}
    found = connect(kubeconfig(tmp_path, cluster=cluster, user={"exec": plugin(tmp_path, body)}))
    assert authorization(found) is None
    assert found.tls is not None
    assert shown_to_a_server(found.tls.context(), authority, issued) == issued[0].read_text()


@pytest.mark.parametrize("word", ["certificate-authority", "certificate-authority-data"])
def test_an_exec_plugin_is_told_the_ca(tmp_path: Path, authority: Authority, word: str) -> None:
    """Whether the kubeconfig holds the CA or names its file, the plugin gets the CA and no name."""
    body = f"""
cluster = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"]["cluster"]
status = {{"token": cluster["certificate-authority-data"] + str("certificate-authority" in cluster)}}
{PRINT}"""
    data = base64.b64encode(authority.cert.read_bytes()).decode()
    cluster = {"server": "https://10.0.0.1", word: data if word.endswith("data") else str(authority.cert)}
    found = connect(kubeconfig(tmp_path, cluster=cluster, user={"exec": plugin(tmp_path, body)}))
    assert authorization(found) == f"Bearer {data}False"


def test_certificates_of_a_plugin_rotate_for_ever(
    tmp_path: Path, authority: Authority, issued: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many it has issued, the CA of the kubeconfig stays what it was, and the last certificate is shown."""
    last = authority.issue("last")
    rounds = [issued] * 100 + [last]
    made = [
        Issued(None, f"# {n}\n{cert.read_text()}", f"# {n}\n{key.read_text()}", None)
        for n, (cert, key) in enumerate(rounds)
    ]
    monkeypatch.setattr(credential_plugins, "run_exec", lambda *_: made.pop(0))
    cluster = {
        "server": "https://10.0.0.1",
        "certificate-authority-data": base64.b64encode(authority.cert.read_bytes()).decode(),
    }
    found = connect(kubeconfig(tmp_path, cluster=cluster, user={"exec": plugin(tmp_path, PRINT)}))
    assert found.tls is not None
    while made:
        found.tls.context()
        found.credentials.renew()
    assert shown_to_a_server(found.tls.context(), authority, issued) == last[0].read_text()


def shown_to_a_server(context: ssl.SSLContext, authority: Authority, pair: tuple[Path, Path]) -> str:
    """The certificate (PEM) that a client shows; the server asks for one, and has this pair itself."""
    asking = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.cert))
    asking.verify_mode = ssl.CERT_REQUIRED
    asking.verify_flags &= ~ssl.VERIFY_X509_STRICT
    asking.load_cert_chain(*pair)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(back, there, server_hostname="api.test")
    server = asking.wrap_bio(there, back, server_side=True)
    for _ in range(4):  # more turns than a handshake has
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    shown = server.getpeercert(binary_form=True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("sys.stderr.write('no luck\\ntoday'); sys.exit(3)", "returned 3. no luck today"),
        ("print('hello')", "failed to decode"),
        (f"status = {{}}\n{PRINT}", "expected a token or clientCertificateData"),
        (f"status = {{'clientCertificateData': 'x'}}\n{PRINT}", "clientKeyData together"),
        (
            f"status = {{'token': 't', 'expirationTimestamp': 'soon'}}\n{PRINT}",
            "expected expirationTimestamp as RFC 3339",
        ),
        (f"status = 'x'\n{PRINT}", "expected a status"),
        (f"status = {{'token': 5}}\n{PRINT}", "expected token, clientCertificateData and clientKeyData as text"),
        ("print(5)", "it failed, or printed no ExecCredential"),
        ("os.write(1, bytes([255]))", "it failed, or printed no ExecCredential"),
    ],
)
def test_a_broken_plugin_is_one_line(tmp_path: Path, body: str, want: str) -> None:
    """The line says what the plugin said, which one it is, and whose."""
    line = refusal(lambda: connect(kubeconfig(tmp_path, user={"exec": plugin(tmp_path, body)})))
    assert want in line
    assert 'exec plugin "./plugin.py"' in line


def test_a_plugin_that_fails_at_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says goes to the terminal, and its failure is one line as well."""
    path = kubeconfig(tmp_path, user={"exec": plugin(tmp_path, "sys.exit('no luck')")})
    leader, follower = os.openpty()
    with os.fdopen(leader, "rb") as screen, os.fdopen(follower, "w") as terminal:
        with monkeypatch.context() as patch:
            for name in ("stdin", "stdout", "stderr"):
                patch.setattr(sys, name, terminal)
            line = refusal(lambda: connect(path))
        assert screen.readline() == b"no luck\r\n"
    assert 'exec plugin "./plugin.py": it failed' in line


def refusal(attempt: Callable[[], object]) -> str:
    """The one line of the ConfigError that this raises."""
    with pytest.raises(ConfigError) as caught:
        attempt()
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 500
    return line


HTTPS = {"server": "https://10.0.0.1"}
NO_PEM = b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"


def executing(**more: Any) -> dict[str, Any]:
    """A user with an exec plugin."""
    return {"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", **more}}}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"current-context": ""}, "no current-context; expected one of one, or name a context"),
        ({"current-context": "prod"}, 'no context "prod"; there are one'),
        ({"contexts": [{"name": "one", "context": {"cluster": "zz", "user": "u"}}]}, 'no cluster "zz"; there are c'),
        ({"contexts": [{"name": "one", "context": {"cluster": "c", "user": "zz"}}]}, 'no user "zz"; there are u'),
        ({"contexts": {"one": {}}}, "contexts: expected a list, found a mapping"),
        ({"clusters": [{"cluster": {}}]}, "clusters[0]: expected a mapping with a name"),
        ({"users": [{"name": "u", "user": "me"}]}, "users[0].user: expected a mapping, found text"),
        ({"kind": "Pod"}, 'expected a kubeconfig (kind Config), found kind "Pod"'),
        ({"cluster": {"server": "10.0.0.1"}}, 'clusters[c].server: expected an http or https URL, found "10.0.0.1"'),
        ({"cluster": {"server": None}}, "clusters[c].server: expected an http or https URL, found nothing"),
        ({"cluster": {"insecure-skip-tls-verify": "yes"}}, 'expected true or false, found "yes"'),
        ({"cluster": {**HTTPS, "certificate-authority": "no.crt"}}, "no.crt: no such file"),
        ({"cluster": {**HTTPS, "certificate-authority-data": "%%%"}}, "certificate-authority-data: expected base64"),
        ({"cluster": {**HTTPS, "certificate-authority-data": "aGVsbG8="}}, "expected base64 of PEM"),
        ({"cluster": {**HTTPS, "certificate-authority": "bad.crt"}}, "bad.crt: expected CA certificates in PEM form"),
        (
            {"cluster": {**HTTPS, "certificate-authority-data": base64.b64encode(NO_PEM).decode()}},
            "(context one): inline data: expected CA certificates in PEM form",
        ),
        (
            {"cluster": {**HTTPS, "certificate-authority": "bad.crt", "insecure-skip-tls-verify": True}},
            "expected certificate-authority or insecure-skip-tls-verify, found both",
        ),
        ({"cluster": {"proxy-url": "socks5://p:1"}}, "expected an http or https proxy, found socks5"),
        ({"user": {"token": 123}}, "users[u].token: expected text, found a number"),
        ({"user": {"tokenFile": "no"}}, "no: no such file; expected a token"),
        ({"user": {"client-certificate": "bad.crt"}}, "expected client-certificate and client-key together"),
        (
            {"cluster": HTTPS, "user": {"client-certificate": "bad.crt", "client-key": "bad.crt"}},
            "bad.crt: expected a client certificate in PEM form",
        ),
        ({"user": {"auth-provider": {"name": "azure"}}}, 'auth-provider: "azure": client-go no longer knows it'),
        (
            {"user": {"auth-provider": {"name": "oidc", "config": {"id-token": []}}}},
            "expected a user as kubectl reads it",
        ),
        ({"user": {"auth-provider": {"name": "gcp", "config": ""}}}, "expected a user as kubectl reads it"),
        ({"user": {"exec": {"command": "x"}}}, "users[u].exec.apiVersion: expected text, found nothing"),
        (executing(args="get"), "users[u].exec.args: expected a list, found text"),
        (executing(args=["get", 1]), "users[u].exec.args[1]: expected text, found a number"),
        (executing(env={"A": "b"}), "users[u].exec.env: expected a list, found a mapping"),
        (executing(env=["A"]), "users[u].exec.env[0]: expected a mapping with name and value, found text"),
        (executing(env=[{"name": "A", "value": 1}]), "users[u].exec.env[0].value: expected text, found a number"),
        (executing(installHint=[]), "users[u].exec.installHint: expected text, found a list"),
        (
            {
                "user": {
                    "exec": {
                        "command": "./absent",
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "installHint": "buy",
                    }
                }
            },
            'exec plugin "./absent": No such file or directory (buy)',
        ),
        ({"user": {"as-groups": ["a"]}}, "need `as`"),
        ({"user": {"as": "jane", "as-groups": "admins"}}, "users[u].as-groups: expected a list, found text"),
        ({"user": {"as": "jane", "as-groups": ["a", 1]}}, "users[u].as-groups[1]: expected text, found a number"),
        ({"user": {"as": "jane", "as-user-extra": ["a"]}}, "as-user-extra: expected a mapping, found a list"),
        ({"user": {"as": "jane", "as-user-extra": {"x": "a"}}}, "as-user-extra.x: expected a list, found text"),
        ({"user": {"as": "jane", "as-user-extra": {1: ["a"]}}}, "expected text as a key, found a number"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, fields: dict[str, Any], want: str) -> None:
    """Each mistake names the file and what was expected."""
    (tmp_path / "bad.crt").write_bytes(NO_PEM)
    path = kubeconfig(tmp_path, **fields)
    line = refusal(lambda: connect(path))
    assert want in line
    assert str(tmp_path) in line


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (b"a: [1,\n  b: }", "not YAML at line 2, column 6"),
        (b"\x00", "not YAML"),
        (b"\xff\xfe\xfd", "not text"),
        (b"", "the file is empty"),
        (b"- 1\n", "found a list"),
        (b"just words", "found text"),
        (b"a: !!int abc", "not YAML: a value is not what its tag says"),
        (b"a: !!bool maybe", "not YAML: a value is not what its tag says"),
        (b"[" * 200_000, "more than 100 levels in one another"),
        (b"a: " + b"{b: " * 101 + b"c" + b"}" * 101, "more than 100 levels in one another"),
    ],
)
def test_what_is_no_kubeconfig(tmp_path: Path, content: bytes, want: str) -> None:
    """Files of the wrong sort, and none at all."""
    path = tmp_path / "config"
    path.write_bytes(content)
    assert want in refusal(lambda: connect(str(path)))
    assert "Is a directory" in refusal(lambda: connect(str(tmp_path)))
    assert "no such file" in refusal(lambda: connect(str(tmp_path / "none")))
