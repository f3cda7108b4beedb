#!/usr/bin/env python3
"""Writes what Jinja2, with the settings of transformers, makes of conversations with tools.

    scripts/make_tool_cases.py FOLDER

Needs jinja2. FOLDER holds published chat templates, NAME.jinja. Writes FOLDER/cases.json: a list of {"template",
"name", "request", "prompt"}, where `request` is what read_conversation() reads. A conversation that
a template refuses is left out. The templates belong to their makers: keep FOLDER outside of the
repository. tests/app/tools/published_test.cpp reads it from ../shared/chat_templates.
"""

import copy
import json
import pathlib
import sys

import jinja2

from make_jinja_cases import environment

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather <now> in a \"city\" & its surroundings, in °C",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Its name"},
                "days": {"type": "integer", "description": "How many"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "places": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["city"],
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {"name": "clock", "description": "The time",
                 "parameters": {"type": "object", "properties": {}}},
}
SYSTEM = {"role": "system", "content": "Be brief."}
ASK = {"role": "user", "content": "How warm is it in Zürich?"}


def call(name, arguments, number):
    return {"id": f"call1234{number}", "type": "function",
            "function": {"name": name, "arguments": arguments}}


CALL = {"role": "assistant", "content": "", "tool_calls": [
    call("get_weather", {"city": "Zürich", "days": 2, "places": ["a", "b\n"]}, 1)]}
TWO = {"role": "assistant", "content": "I look.", "tool_calls": [
    call("get_weather", {"city": "Oslo"}, 1), call("clock", {}, 2)]}
THOUGHT = dict(CALL, reasoning_content="The user asks for the weather.")
NULL = dict(CALL, content=None)
ANSWER = {"role": "tool", "tool_call_id": "call12341", "name": "get_weather",
          "content": "{\"warm\": 21}"}
SECOND = {"role": "tool", "tool_call_id": "call12342", "name": "clock", "content": "12:00"}
DONE = {"role": "assistant", "content": "21 degrees."}
NEXT = {"role": "user", "content": "And tomorrow?"}
BOTH = [WEATHER, CLOCK]

CASES = {
    "one tool": {"messages": [ASK], "tools": [WEATHER]},
    "two tools after a system message": {"messages": [SYSTEM, ASK], "tools": BOTH},
    "a tool without arguments": {"messages": [ASK], "tools": [CLOCK]},
    "a call": {"messages": [ASK, CALL, ANSWER], "tools": BOTH},
    "a call after a system message": {"messages": [SYSTEM, ASK, CALL, ANSWER], "tools": BOTH},
    "a call without content": {"messages": [ASK, NULL, ANSWER], "tools": BOTH},
    "a call after thinking": {"messages": [ASK, THOUGHT, ANSWER], "tools": BOTH},
    "two calls": {"messages": [ASK, TWO, ANSWER, SECOND], "tools": BOTH},
    "an answer and a further question": {
        "messages": [ASK, CALL, ANSWER, DONE, NEXT], "tools": BOTH},
    "a call without tools": {"messages": [ASK, CALL, ANSWER, DONE, NEXT]},
    "no thinking": {"messages": [ASK], "tools": [WEATHER],
                    "chat_template_kwargs": {"enable_thinking": False}},
    "thinking": {"messages": [ASK], "tools": [WEATHER],
                 "chat_template_kwargs": {"enable_thinking": True}},
    "little effort": {"messages": [ASK], "tools": [WEATHER], "reasoning_effort": "low"},
}


def as_clients_send(request):
    """The same request with arguments as JSON texts, as OpenAI's clients send them."""
    changed = copy.deepcopy(request)
    for message in changed["messages"]:
        for one in message.get("tool_calls", []):
            one["function"]["arguments"] = json.dumps(one["function"]["arguments"],
                                                      ensure_ascii=False)
    return changed


def main():
    folder = pathlib.Path(sys.argv[1])
    env = environment()
    cases = []
    for path in sorted(folder.glob("*.jinja")):
        try:
            template = env.from_string(path.read_text(encoding="utf-8"))
        except jinja2.TemplateError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            continue
        for name, request in CASES.items():
            more = dict(request.get("chat_template_kwargs", {}))
            if "reasoning_effort" in request:
                more["reasoning_effort"] = request["reasoning_effort"]
            try:
                prompt = template.render(
                    messages=copy.deepcopy(request["messages"]), tools=request.get("tools"),
                    documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>",
                    **more)
            except Exception as refused:  # of the template's own code too
                print(f"{path.name}: {name}: {refused}", file=sys.stderr)
                continue
            cases.append({"template": path.name, "name": name,
                          "request": as_clients_send(request), "prompt": prompt})
    text = json.dumps(cases, ensure_ascii=False, indent=0)
    (folder / "cases.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(cases)} cases of {len({case['template'] for case in cases})} templates")


if __name__ == "__main__":
    main()
