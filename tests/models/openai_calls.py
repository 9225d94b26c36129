# SPDX-License-Identifier: MIT
"""Calls of OpenAI's client for test_openai.py: openai_calls.py BASE_URL."""
import asyncio
import sys

import openai

CHAT = [{"role": "user", "content": "hello"}]


def ask(client):
    answer = client.chat.completions.create(model="alphabet", messages=CHAT, max_tokens=3, temperature=0, logprobs=True, top_logprobs=2)
    assert answer.choices[0].message.content == "uvw", answer
    assert [token.token for token in answer.choices[0].logprobs.content] == ["u", "v", "w"]
    assert answer.usage.completion_tokens == 3
    pieces = list(client.chat.completions.create(model="alphabet", messages=CHAT, max_tokens=3, temperature=0, stream=True, stream_options={"include_usage": True}))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == "uvw", pieces
    assert pieces[-1].usage.completion_tokens == 3
    assert [choice.text for choice in client.completions.create(model="alphabet", prompt=["a", "x"], max_tokens=2, temperature=0).choices] == ["bc", "yz"]
    assert "".join(piece.choices[0].text for piece in client.completions.create(model="alphabet", prompt="a", max_tokens=3, temperature=0, stream=True)) == "bcd"
    lists = client.completions.create(model="alphabet", prompt="ab", max_tokens=1, temperature=0, logprobs=1, echo=True).choices[0].logprobs
    assert lists.tokens == ["a", "b", "c"] and lists.token_logprobs[0] is None and len(lists.top_logprobs[1]) == 1, lists
    assert "alphabet" in [model.id for model in client.models.list()]
    assert client.models.retrieve("alphabet").owned_by == "beamline"
    rows = client.embeddings.create(model="mood", input=["very good film!", "Not good"])  # transferred as base64
    plain = client.embeddings.create(model="mood", input="very good film!", encoding_format="float")
    assert len(rows.data) == 2 and max(abs(a - b) for a, b in zip(rows.data[0].embedding, plain.data[0].embedding)) < 1e-6


def fail(client):
    for kind, word, members in ((openai.NotFoundError, "nothing", {"model": "nothing"}), (openai.BadRequestError, "grammar", {"extra_body": {"grammar": "x"}}),
                                (openai.BadRequestError, "context size", {"messages": [{"role": "user", "content": "a" * 100}]})):
        try:
            client.chat.completions.create(**{"model": "alphabet", "messages": CHAT, **members})
        except kind as error:
            assert word in str(error), error
        else:
            raise AssertionError(word)


async def ask_at_once(url):
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
        async def one(letter):
            answer = await client.completions.create(model="alphabet", prompt=letter, max_tokens=2, temperature=0)
            return answer.choices[0].text
        assert await asyncio.gather(*(one(letter) for letter in "abcdefgh")) == [chr(ord(letter) + 1) + chr(ord(letter) + 2) for letter in "abcdefgh"]
        text = ""
        async for piece in await client.chat.completions.create(model="alphabet", messages=CHAT, max_tokens=3, temperature=0, stream=True):
            text += piece.choices[0].delta.content or ""
        assert text == "uvw", text


def main():
    client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
    ask(client)
    fail(client)
    asyncio.run(ask_at_once(sys.argv[1]))
    print("done")


if __name__ == "__main__":
    main()
