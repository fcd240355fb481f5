"""Several models and several clients in one process."""

import contextlib
import json
import logging
from concurrent.futures import ThreadPoolExecutor

import msitd
import pytest
import torch
from fake_daemon import FakeDaemon
from msitd._core import open_clients
from torch import nn

X = torch.ones(2, 4)


def new_model():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU())


def recorded_ops(client, daemon):
    client.flush()
    return {r.op for r in daemon.records}


def test_models_have_the_names_that_they_are_given(client, daemon):
    generator, critic = new_model(), new_model()
    with (
        msitd.register_hook(generator, client, name="G"),
        msitd.register_hook(critic, client, name="D"),
    ):
        critic(generator(X))
    assert recorded_ops(client, daemon) == {"G", "G.0", "G.1", "D", "D.0", "D.1"}
    tree = json.loads(daemon.documents["module_tree.json"])
    assert [module["op"] for module in tree["modules"]] == [
        *("G", "G.0", "G.1"),
        *("D", "D.0", "D.1"),
    ]


def test_a_second_model_is_not_root(client, daemon, caplog):
    models = [new_model() for _ in range(3)]
    with caplog.at_level(logging.WARNING, "msitd"):
        handles = [msitd.register_hook(model, client) for model in models]
    assert "recorded as 'root2'" in caplog.text
    for model in models:
        model(X)
    assert recorded_ops(client, daemon) == {
        f"{root}{tail}"
        for root in ("root", "root2", "root3")
        for tail in ("", ".0", ".1")
    }
    calls = {(r.op, r.call) for r in daemon.records}
    assert {call for _, call in calls} == {0}
    for handle in handles:
        handle.remove()
    # Names become available again with the removal of the hooks.
    with msitd.register_hook(models[2], client) as handle:
        assert "root.0" in handle._hooks


def test_gradients_of_models_that_are_hooked_one_after_the_other_are_calls(
    client, daemon
):
    expected = []
    for factor in (1.0, 2.0):
        model = new_model()
        # A trainer that starts over uses the same tokens as before.
        client.token = 0
        with msitd.register_hook(model, client, gradients=True, time="step"):
            for _ in range(2):
                model(factor * X).sum().backward()
        expected.append(model[0].bias.grad / 2)
    client.flush()
    found = [r for r in daemon.records if (r.io, r.index) == ("grad_weight", "bias")]
    assert [(r.op, r.token, r.call) for r in found] == [
        ("root.0", 0, call) for call in range(4)
    ]
    for number, record in enumerate(found):
        made = torch.frombuffer(bytearray(record.data), dtype=torch.float32)
        assert made.equal(expected[number // 2])


def test_a_name_is_that_of_one_model(client):
    model, other = new_model(), new_model()
    with msitd.register_hook(model, client, name="G"):
        with pytest.raises(ValueError, match="another model under the name 'G'"):
            msitd.register_hook(other, client, name="G")
        # Two handles of one model may share the name.
        with msitd.register_hook(model, client, name="G", op_pattern="G.0"):
            pass
    with msitd.register_hook(other, client, name="G"):
        pass
    for name in ("", "x" * 200):
        with pytest.raises(ValueError, match="name"):
            msitd.register_hook(model, client, name=name)


def test_hooks_that_were_left_on_are_not_unnoticed(caplog):
    model = new_model()
    caplog.set_level(logging.WARNING, "msitd")
    with contextlib.ExitStack() as ends:
        # A fake daemon has only one stream.
        daemons = [FakeDaemon() for _ in range(3)]
        for daemon in daemons:
            ends.callback(daemon.stop)
        first, second, third = (
            ends.enter_context(msitd.Client(f"run{number}", endpoint=daemon.endpoint))
            for number, daemon in enumerate(daemons)
        )
        left = msitd.register_hook(model, first)
        msitd.register_hook(model, second).remove()
        assert "into run 'run0', too" in caplog.text
        caplog.clear()
        # Hooks whose client is closed are removed.
        first.close()
        with msitd.register_hook(model, third):
            assert left._hooks == {}
        assert caplog.text == ""


def test_a_client_that_is_open_is_in_the_way(daemon):
    with msitd.Client("run", endpoint=daemon.endpoint):
        with pytest.raises(
            msitd.MsitError, match=rf"RANK_BUSY.*this process.*{__file__}"
        ):
            msitd.Client("run", endpoint=daemon.endpoint)
        # Another rank, another run, another daemon.
        with msitd.Client("run", 1, 2, daemon.endpoint):
            pass
        with msitd.Client("other", endpoint=daemon.endpoint):
            pass
    with msitd.Client("run", endpoint=daemon.endpoint):
        pass


def test_clients_that_append_share_one_stream(daemon):
    first = msitd.Client("run", endpoint=daemon.endpoint)
    second = msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
    first.next_token()
    assert second.token == 1
    first.record(X, op="a")
    first.close()
    assert not second.closed
    assert len(daemon.records) == 1
    second.record(X, op="b")
    second.close()
    assert second.closed
    assert [(r.op, r.token) for r in daemon.records] == [("a", 1), ("b", 1)]
    with pytest.raises(msitd.MsitError, match="closed"):
        first.record(X, op="c")


def test_threads_that_open_clients_at_once_share_one_stream(daemon):
    with ThreadPoolExecutor(8) as pool:
        clients = list(
            pool.map(
                lambda _: msitd.Client(
                    "run", endpoint=daemon.endpoint, if_exists="append"
                ),
                range(8),
            )
        )
    assert len({id(client.stream) for client in clients}) == 1
    assert open_clients._locks == {}
    for i, client in enumerate(clients):
        client.record(X, op=f"op{i}")
        client.close()
    assert len(daemon.records) == 8


def test_a_subclass_has_arguments_of_its_own(daemon):
    class Named(msitd.Client):
        def __init__(self, a, b, c, d, e):
            self.letters = a + b + c + d + e
            super().__init__("run", endpoint=daemon.endpoint, if_exists="append")

    with Named("a", "b", "c", "d", "e") as first, Named(*"fghij") as second:
        assert (first.letters, second.letters) == ("abcde", "fghij")
        assert first.stream is second.stream


def test_a_client_that_is_wrong_changes_no_other(daemon):
    with msitd.Client("run", endpoint=daemon.endpoint) as client:
        for wrong in ({"on_drop": "bogus"}, {"overflow": "bogus"}):
            for how in ("replace", "append"):
                with pytest.raises(ValueError, match="bogus"):
                    msitd.Client(
                        "run", endpoint=daemon.endpoint, if_exists=how, **wrong
                    )
        with pytest.raises(ValueError, match="world_size 7 is not 1"):
            msitd.Client("run", 0, 7, endpoint=daemon.endpoint, if_exists="append")
        assert not client.closed
        assert client.record(X, op="op")


def test_a_daemon_has_one_name_however_it_is_spelled(tmp_path):
    folder = tmp_path / "sockets"
    folder.mkdir()
    (folder / "msitd.sock").touch()
    (tmp_path / "link").symlink_to(folder)
    names = {
        open_clients.Opening(f"{prefix}{path}", 0, 1).endpoint
        for prefix in ("", "unix:")
        for path in (folder, f"{folder}/", folder / "msitd.sock", tmp_path / "link")
    }
    assert names == {str(folder.resolve())}
    assert open_clients.Opening("127.0.0.1:7741", 0, 1).endpoint == "127.0.0.1:7741"


def test_clients_of_one_stream_are_closed_separately(daemon):
    first = msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
    second = msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
    first.record(X, op="a")
    first.close()
    first.close()
    assert first.closed
    for use in (
        lambda: first.record(X, op="x"),
        lambda: first.record_value(1, op="x"),
        lambda: first.record_statistics([1], "float32", {"max": 1.0}, op="x"),
        lambda: first.record_document("x", "text"),
        lambda: first.record_requests(["x"]),
        lambda: first.begin_call("x"),
        first.next_token,
        first.flush,
    ):
        with pytest.raises(msitd.MsitError, match="closed"):
            use()
    assert second.token == 0
    second.record(X, op="b")
    third = msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
    second.close()
    assert not third.closed
    third.record(X, op="c")
    third.close()
    assert third.closed
    assert [r.op for r in daemon.records] == ["a", "b", "c"]


def test_client_that_nobody_refers_to_leaves_the_stream(daemon):
    # As in a notebook cell that runs twice.
    for token in range(2):
        client = msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
        client.record(X, op="a", token=token)
    client.close()
    assert client.closed
    with pytest.raises(msitd.MsitError, match="closed"):
        client.record(X, op="a", token=2)
    assert [r.token for r in daemon.records] == [0, 1]


def test_model_keeps_its_name_for_all_clients_of_a_stream(daemon):
    first = msitd.Client("run", endpoint=daemon.endpoint)
    second = msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
    model, other = new_model(), new_model()
    with (
        first,
        second,
        msitd.register_hook(model, first, name="G"),
        pytest.raises(ValueError, match="'G'"),
    ):
        msitd.register_hook(other, second, name="G")


def test_replacing_closes_the_client_of_before(daemon, caplog):
    first = msitd.Client("run", endpoint=daemon.endpoint)
    msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
    with (
        caplog.at_level(logging.WARNING, "msitd"),
        msitd.Client("run", endpoint=daemon.endpoint, if_exists="replace"),
    ):
        assert first.closed
        assert __file__ in caplog.text


def test_hooks_of_a_closed_client_record_into_no_other(daemon, caplog):
    first = msitd.Client("run", endpoint=daemon.endpoint)
    second = msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
    model, other = new_model(), new_model()
    handle = msitd.register_hook(model, first, name="G", gradients=True)
    loss = model(X).sum()
    first.close()
    count = len(daemon.records)
    loss.backward()
    with caplog.at_level(logging.WARNING, "msitd"):
        for _ in range(3):
            model(X).sum().backward()
    handle.resume()
    model(X)
    assert second.token == 0
    with msitd.register_hook(other, second, name="D"):
        other(X)
    second.flush()
    assert {record.op for record in daemon.records[count:]} == {"D", "D.0", "D.1"}
    (reason,) = (each for each in handle.skipped if "closed" in each)
    # Four passes, and the gradients of the pass that was recorded.
    assert handle.skipped[reason] == 4 + 4
    assert caplog.text.count("closed") <= 1
    second.close()
    assert "closed" in "".join(daemon.documents.values())


def test_hooks_put_on_with_a_closed_client_record_nothing(daemon):
    first = msitd.Client("run", endpoint=daemon.endpoint)
    second = msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
    first.close()
    model = new_model()
    with (
        msitd.register_hook(model, first, name="G", weights=True) as handle,
        msitd.register_api(first) as functions,
    ):
        torch.add(X, X)
        model(X)
        second.flush()
        assert daemon.records == []
        assert any("closed" in reason for reason in handle.skipped)
        assert any("closed" in reason for reason in functions.skipped)
    second.close()


def test_hooks_of_functions_stop_with_their_client(daemon):
    first = msitd.Client("run", endpoint=daemon.endpoint)
    second = msitd.Client("run", endpoint=daemon.endpoint, if_exists="append")
    with msitd.register_api(first) as handle:
        torch.add(X, X)
        first.close()
        count = len(daemon.records)
        handle.resume()
        torch.add(X, X)
        torch.mul(X, X)
        second.flush()
        assert len(daemon.records) == count
        assert sum(handle.skipped.values()) == 2
    second.close()
