"""Requests that models of transformers record by themselves."""

import copy
import gc
import hashlib
import threading
from array import array

import msitd
import pytest
import request_models
import torch
from msitd._core.module import automatic_requests, batches, sequence_states
from request_models import Cache, Decoder, Plain, check_skips, requests_in
from torch import nn

LONG, SHORT = [5, 6, 7, 8], [9, 3]
IDS = torch.tensor([LONG, [0, 0, *SHORT]])
MASK = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
STEP = torch.tensor([[1], [2]])


def id_of(tokens, *position):
    digest = hashlib.blake2b(array("q", [*tokens, *position]).tobytes(), digest_size=6)
    return f"auto-{digest.hexdigest()}"


A, B = id_of(LONG), id_of(SHORT)


@pytest.fixture(autouse=True)
def transformers(monkeypatch):
    request_models.install(monkeypatch)


@pytest.fixture
def recorded(client, daemon):
    """Returns the requests of each token while `run` calls the model."""

    def record(run, model=None, **options):
        model = Decoder() if model is None else model
        hooks = msitd.register_hook(model, client, **options)
        with torch.no_grad(), hooks as handle:
            run(model)
        client.flush()
        check_skips(handle)
        assert client.counters().conflict_count == 0
        return requests_in(daemon)

    return record


def one(*shape):
    return torch.ones(*shape, dtype=torch.int64)


def generate(model, ids, mask=None, steps=2, cache=None):
    """Calls a model as `generate` does."""
    cache = Cache() if cache is None else cache
    for _ in range(steps + 1):
        if mask is not None:
            missing = cache.length + ids.shape[1] - mask.shape[1]
            mask = torch.cat([mask, one(len(ids), missing)], 1)
        model(input_ids=ids, attention_mask=mask, past_key_values=cache)
        ids = one(len(ids), 1)


def test_a_prompt_has_the_same_id_in_each_batch(recorded):
    def run(model):
        generate(model, IDS, MASK)
        # Padding on the right.
        generate(model, torch.tensor([[1, 2, 3], [*SHORT, 0]]), MASK[:, 1:].flip(1))

    other = id_of([1, 2, 3])
    assert recorded(run) == {
        0: {A: "0:1,0:4@0/2,4", B: "1:2,2:4@0/2,4"},
        1: {A: "0:1,0:1@4/2,1", B: "1:2,0:1@2/2,1"},
        2: {A: "0:1,0:1@5/2,1", B: "1:2,0:1@3/2,1"},
        3: {f"{B}-2": "1:2,0:2@0/2,3", other: "0:1,0:3@0/2,3"},
        4: {f"{B}-2": "1:2,0:1@2/2,1", other: "0:1,0:1@3/2,1"},
        5: {f"{B}-2": "1:2,0:1@3/2,1", other: "0:1,0:1@4/2,1"},
    }


def test_duplicates_have_a_number(recorded):
    def run(model):
        model(torch.tensor([LONG, SHORT * 2, LONG]))
        model(torch.tensor([LONG]))

    twice = id_of(SHORT * 2)
    assert recorded(run) == {
        0: {A: "0:1@0/3,4", twice: "1:2@0/3,4", f"{A}-2": "2:3@0/3,4"},
        1: {f"{A}-3": "0:1@0/1,4"},
    }


def test_hooks_that_are_registered_again_continue_the_numbers(recorded):
    recorded(lambda model: model(torch.tensor([LONG])))
    found = recorded(lambda model: model(torch.tensor([LONG])))
    assert found[1] == {f"{A}-2": "0:1@0/1,4"}


def test_a_loop_of_the_user_continues_with_the_returned_cache(recorded):
    def run(model):
        first = model(torch.tensor([LONG]))
        second = model(torch.tensor([SHORT]))
        for _ in range(2):
            # Both alternate.
            first = model(one(1, 1), past_key_values=first.past_key_values)
            second = model(one(1, 1), past_key_values=second.past_key_values)

    texts = list(recorded(run).values())
    assert texts == [
        {A: "0:1@0/1,4"},
        {B: "0:1@0/1,2"},
        {A: "0:1@4/1,1"},
        {B: "0:1@2/1,1"},
        {A: "0:1@5/1,1"},
        {B: "0:1@3/1,1"},
    ]


def test_chunks_of_a_prompt_continue_its_first(recorded):
    def run(model):
        cache = Cache()
        for chunk in torch.tensor([LONG + SHORT]).split(2, 1):
            model(chunk, past_key_values=cache)

    first = id_of(LONG[:2])
    texts = [each[first] for each in recorded(run).values()]
    assert texts == ["0:1@0/1,2", "0:1@2/1,2", "0:1@4/1,2"]


def test_a_chunk_of_padding_begins_nothing(recorded):
    def run(model):
        cache = Cache()
        for end in (2, 4):
            chunk = IDS[:, end - 2 : end]
            model(chunk, attention_mask=MASK[:, :end], past_key_values=cache)

    first = id_of(LONG[:2])
    assert recorded(run) == {
        0: {first: "0:1,0:2@0/2,2"},
        1: {first: "0:1,0:2@2/2,2", B: "1:2,0:2@0/2,2"},
    }


def test_a_cropped_cache_repeats_positions(recorded):
    def run(model):
        cache = Cache()
        model(torch.tensor([LONG]), past_key_values=cache)
        model(one(1, 3), past_key_values=cache)
        cache.length = 5
        model(one(1, 3), past_key_values=cache)

    texts = [each[A] for each in recorded(run).values()]
    assert texts == ["0:1@0/1,4", "0:1@4/1,3", "0:1@5/1,3"]


def test_a_cache_that_is_emptied_begins_again(recorded):
    def run(model):
        cache = Cache()
        generate(model, torch.tensor([LONG]), steps=0, cache=cache)
        cache.length = 0
        generate(model, torch.tensor([SHORT]), steps=1, cache=cache)

    assert list(recorded(run).values())[1:] == [{B: "0:1@0/1,2"}, {B: "0:1@2/1,1"}]


def test_a_cache_that_was_filled_elsewhere(recorded):
    def run(model):
        prefix = Cache()
        prefix.length = 7
        cache = copy.copy(prefix)
        generate(model, torch.tensor([SHORT]), steps=1, cache=cache)
        # One token does not identify a sequence.
        generate(model, one(1, 1), steps=1, cache=copy.copy(prefix))

    known = id_of(SHORT, 7)
    assert recorded(run) == {0: {known: "0:1@7/1,2"}, 1: {known: "0:1@9/1,1"}}


def test_another_number_of_rows_does_not_continue(recorded):
    def run(model):
        cache = Cache()
        model(IDS, MASK, cache)
        model(one(1, 1), None, cache)
        model(one(1, 1), None, cache)

    assert list(recorded(run)) == [0]


def test_caches_without_identity_continue_the_last(recorded):
    def cache(length):
        return ((torch.ones(2, 1, length, 3),) * 2,)

    class Old(Decoder):
        def forward(self, input_ids, past_key_values=None):
            return (self.embed(input_ids),)

    def run(model):
        model(IDS)
        model(STEP, cache(4))
        model(STEP, cache(5))
        model(STEP, cache(9))

    long, short = id_of(LONG), id_of([0, 0, *SHORT])
    assert recorded(run, Old()) == {
        0: {long: "0:1@0/2,4", short: "1:2@0/2,4"},
        1: {long: "0:1@4/2,1", short: "1:2@4/2,1"},
        2: {long: "0:1@5/2,1", short: "1:2@5/2,1"},
    }


def test_a_mask_with_holes_and_others(recorded):
    holes = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 1]])

    def run(model):
        model(IDS, holes)
        cache = Cache()
        model(IDS, one(2, 1, 4, 4), cache)
        model(STEP, one(2, 1, 1, 5), cache)
        # Without the mask, the position is unknown: there may be padding.
        model(STEP, None, cache)

    padded = id_of([0, 0, *SHORT])
    assert recorded(run) == {
        0: {id_of([5, 7, 8]): "0:1", B: "1:2,2:4@0/2,4"},
        1: {A: "0:1", padded: "1:2"},
        2: {A: "0:1", padded: "1:2"},
        3: {A: "0:1", padded: "1:2"},
    }


def test_forwards_without_a_cache_begin(recorded):
    # As generate(use_cache=False) calls it.
    def run(model):
        model(torch.tensor([LONG]))
        model(torch.tensor([[*LONG, 1]]))

    assert recorded(run) == {
        0: {A: "0:1@0/1,4"},
        1: {id_of([*LONG, 1]): "0:1@0/1,5"},
    }


def test_training_steps_have_requests(client, daemon):
    model = Decoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with msitd.register_hook(model, client, gradients=True) as handle:
        for _ in range(2):
            model(IDS, MASK).hidden.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    client.flush()
    assert not any("request" in reason for reason in handle.skipped)
    assert requests_in(daemon) == {
        0: {A: "0:1,0:4@0/2,4", B: "1:2,2:4@0/2,4"},
        1: {f"{A}-2": "0:1,0:4@0/2,4", f"{B}-2": "1:2,2:4@0/2,4"},
    }


def test_tokens_that_are_not_recorded_are_followed(recorded):
    found = recorded(lambda model: generate(model, IDS, MASK), tokens=(2,))
    assert found == {2: {A: "0:1,0:1@5/2,1", B: "1:2,0:1@3/2,1"}}


@pytest.mark.parametrize("wrapped", [torch.nn.DataParallel, torch.compile])
def test_wrapped_models_have_requests(recorded, wrapped):
    torch.compiler.reset()
    options = {"backend": "eager"} if wrapped is torch.compile else {}
    model = wrapped(Decoder(), **options)

    def run(model):
        out = model(input_ids=IDS, attention_mask=MASK)
        mask = torch.cat([MASK, one(2, 1)], 1)
        cache = out.past_key_values
        model(input_ids=STEP, attention_mask=mask, past_key_values=cache)

    assert recorded(run, model) == {
        0: {A: "0:1,0:4@0/2,4", B: "1:2,2:4@0/2,4"},
        1: {A: "0:1,0:1@4/2,1", B: "1:2,0:1@2/2,1"},
    }


def test_threads_generate_at_once(recorded):
    def run(model):
        prompts = [torch.tensor([[number, 1, 2]]) for number in range(4)]

        def work(prompt):
            with torch.no_grad():
                generate(model, prompt, steps=5)

        threads = [threading.Thread(target=work, args=(each,)) for each in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    model = Decoder()
    positions = {}
    for requests in recorded(run, model, time="forward").values():
        for request, text in requests.items():
            positions.setdefault(request, set()).add(text.split("@")[1])
    assert positions.keys() == {id_of([number, 1, 2]) for number in range(4)}


class Vision(Decoder):
    main_input_name = "pixel_values"


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (Decoder(is_encoder_decoder=True), {}),
        (Vision(), {}),
        (Plain(), {}),
        (Decoder(), {"requests": False}),
    ],
    ids=["encoder-decoder", "vision", "other", "off"],
)
def test_other_models_record_nothing(recorded, model, options):
    assert recorded(lambda model: model(IDS, MASK), model, **options) == {}


def test_without_transformers_nothing_is_recorded(recorded, monkeypatch):
    monkeypatch.delitem(request_models.sys.modules, "transformers.modeling_utils")
    assert recorded(lambda model: model(IDS, MASK)) == {}


class Hostile:
    """An argument whose attributes raise."""

    def __getattr__(self, name):
        raise RuntimeError(f"hostile {name}")


@pytest.mark.parametrize(
    "arguments",
    [
        {"input_ids": "text"},
        {"input_ids": Hostile()},
        {"input_ids": [[1, 2]]},
        {"input_ids": IDS[0]},
        {"input_ids": IDS[None]},
        {"input_ids": None, "inputs_embeds": torch.ones(2, 4, 4)},
        {"input_ids": IDS[:, :0]},
        {"input_ids": IDS[:0]},
        {"input_ids": IDS, "cu_seq_lens_q": torch.tensor([0, 4, 8])},
        {},
    ],
    ids=range(10),
)
def test_inputs_that_are_no_batch_of_tokens(recorded, arguments):
    assert recorded(lambda model: model(**arguments)) == {}


class Broken(Cache):
    """A cache whose methods raise."""

    def get_seq_length(self):
        raise RuntimeError("hostile")

    has_previous_state = get_seq_length


@pytest.mark.parametrize("cache", [Broken(), "cache", {"k": Hostile()}], ids=range(3))
def test_a_hostile_cache_has_no_position(recorded, cache):
    found = recorded(lambda model: model(IDS[:1], past_key_values=cache))
    assert found == {0: {id_of(LONG, -1): "0:1/1,4"}}


def test_a_hostile_mask_has_no_columns(recorded):
    found = recorded(lambda model: model(IDS[:1], attention_mask=Hostile()))
    assert found == {0: {A: "0:1"}}


def test_a_hostile_result_ends_its_step(client, daemon):
    class Odd(Decoder):
        def forward(self, input_ids):
            return Hostile()

    model = Odd()
    with torch.no_grad(), msitd.register_hook(model, client, outputs=False):
        for _ in range(2):
            model(IDS[:1])
    client.flush()
    assert list(requests_in(daemon)) == [0, 1]


def test_a_forward_that_raises_ends_nothing(recorded):
    def run(model):
        cache = Cache()
        with pytest.raises(IndexError):
            model(torch.tensor([[99]]), past_key_values=cache)
        generate(model, torch.tensor([LONG]), steps=1)

    found = recorded(run)
    assert list(found.values())[1:] == [{A: "0:1@0/1,4"}, {A: "0:1@4/1,1"}]


def test_more_rows_than_a_token_may_have_are_counted(client, daemon, monkeypatch):
    monkeypatch.setattr(automatic_requests, "REQUESTS_MAX", 1)
    model = Decoder()
    with msitd.register_hook(model, client) as handle:
        model(IDS)
        model(IDS[:1])
    client.flush()
    assert list(requests_in(daemon)) == [1]
    assert handle.skipped[automatic_requests._TOO_MANY_ROWS] == 1


def test_sequences_are_bounded_and_counted(client, daemon, monkeypatch):
    monkeypatch.setattr(automatic_requests, "_SEQUENCES_MAX", 2)
    model = Decoder()
    with msitd.register_hook(model, client) as handle:
        for number in (1, 2, 3, 1):
            model(torch.tensor([[number]]))
    client.flush()
    assert requests_in(daemon) == {
        0: {id_of([1]): "0:1@0/1,1"},
        1: {id_of([2]): "0:1@0/1,1"},
        3: {f"{id_of([1])}-2": "0:1@0/1,1"},
    }
    assert handle.skipped[automatic_requests._TOO_MANY_SEQUENCES] == 1


def test_caches_are_not_kept_alive(monkeypatch):
    states = sequence_states.SequenceStates()
    monkeypatch.setattr(sequence_states, "_CACHES_MAX", 3)
    kept = [Cache() for _ in range(5)]
    for cache in kept:
        states.keep(cache, sequence_states.SequenceState(1))
    assert [states.find(cache, 1, 1) is not None for cache in kept] == [
        *(False, False),
        *(True, True, True),
    ]
    del kept, cache
    gc.collect()
    assert not states._by_id


def test_a_step_on_a_device_does_not_read_the_mask(recorded, monkeypatch):
    reads = []
    rows_of = batches.BatchReader._rows_of
    continues = batches.BatchReader._continues

    def counted(self, mask, columns):
        reads.append(columns)
        return rows_of(self, mask, columns)

    class OnDevice:
        """A mask that only says where it lies."""

        class device:
            type = "cuda"

    monkeypatch.setattr(batches.BatchReader, "_rows_of", counted)
    monkeypatch.setattr(
        batches.BatchReader,
        "_continues",
        lambda self, state, mask, *rest: continues(self, state, OnDevice, *rest),
    )
    found = recorded(lambda model: generate(model, IDS, MASK, steps=3))
    assert reads == [4]
    assert [each[B] for each in found.values()] == [
        "1:2,2:4@0/2,4",
        "1:2,0:1@2/2,1",
        "1:2,0:1@3/2,1",
        "1:2,0:1@4/2,1",
    ]


def test_models_of_one_client_do_not_share_numbers(client, daemon):
    teacher, student = Decoder(), Decoder()
    with (
        torch.no_grad(),
        msitd.register_hook(teacher, client, time="step"),
        msitd.register_hook(student, client, time="step", name="student"),
    ):
        teacher(IDS, MASK)
        student(IDS, MASK)
    client.flush()
    # Both have the same rows, so the token has each request once.
    assert requests_in(daemon) == {0: {A: "0:1,0:4@0/2,4", B: "1:2,2:4@0/2,4"}}


def test_modules_of_the_model_are_no_batches(recorded):
    class Holder(Decoder):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

    assert recorded(lambda model: model.inner(torch.ones(1, 2)), Holder()) == {}
