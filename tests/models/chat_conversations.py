# SPDX-License-Identifier: MIT
"""Conversations for the tests of chat templates: the variables of one rendering each."""

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "description": "Name of the city <&>"}, "unit": {"type": "string", "enum": ["°C", "°F"]},
                                               "days": {"type": "integer", "minimum": 1, "default": 3}, "exact": {"type": "boolean"}},
              "required": ["city"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.\nIn \"plain\" words.", "parameters": PARAMETERS}},
         {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, number):
    return {"id": f"call0000{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, number, name="get_weather"):
    return {"role": "tool", "tool_call_id": f"call0000{number}", "name": name, "content": text}


CONVERSATIONS = {
    "one": [user("What is the capital of France?")],
    "system": [{"role": "system", "content": "  You are brief.\n"}, user("Hello"), assistant("Hi!"), user("  Bye \n")],
    "tools": [{"role": "system", "content": "Use tools."}, user("Weather in Oslo?")],
    "calls": [user("Weather in Oslo?"), assistant("", tool_calls=[call("get_weather", {"city": "Oslo", "days": 2, "exact": True, "unit": "°C"}, 1)]), result('{"t": -3.5}', 1),
              assistant("It is cold."), user("And now?")],
    "two calls": [user("Oslo and Rome?"), assistant(None, tool_calls=[call("get_weather", '{"city": "Oslo"}', 1), call("get_weather", '{"city": "Rome"}', 2)]),
                  result("cold", 1), result([{"type": "text", "text": "warm"}], 2)],
    "parts": [user([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "text", "text": "Tell me."}])],
    "reasoning": [user("1+1?"), assistant("2", reasoning_content="One and one\nmake two."), user("2+2?"), assistant("<think>\nTwo and two.\n</think>\n\n4"), user("3+3?")],
    "empty": [],
    "unicode": [{"role": "system", "content": "Ты — помощник 🤖"}, user("日本語は？ \u2028 'quoted' \"text\" <|im_end|> \\n {{ x }}"), assistant("Straße ΑΣ"), user("é\ud7ff\U0010ffff")],
    "prefill": [user("Count."), assistant("1, 2,")],
    "roles": [user("a"), user("b"), assistant("c"), assistant("d"), {"role": "developer", "content": "e"}, {"role": "ipython", "content": "f"}],
    "odd": [user(""), assistant("", tool_calls=[]), {"role": "tool", "content": {"a": [1, 2.5, None, True, 1e16, 1e-7]}}, {"role": "system", "content": "late"}, user("x" * 1000)],
}
WITH_TOOLS = {"tools", "calls", "two calls"}
MORE = [{}, {"enable_thinking": False, "thinking": True, "reasoning_effort": "low", "date_string": "01 Jan 2025", "xml_tools": True}]


def renderings():
    """Yields (name, variables) of each conversation."""
    for name, messages in CONVERSATIONS.items():
        for number, more in enumerate(MORE):
            yield f"{name}/{number}", {"messages": messages, "tools": TOOLS if name in WITH_TOOLS else None, "documents": None,
                                       "add_generation_prompt": name != "prefill", "bos_token": "<s>", "eos_token": "</s>", **more}
