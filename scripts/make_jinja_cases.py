#!/usr/bin/env python3
"""Writes tests/data/jinja/*.json: the templates of scripts/jinja/cases.py, their variables, and Jinja2's
output with the settings of transformers. Needs jinja2 (pip install jinja2==3.1.6); the tests need
only the written files."""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from jinja.cases import CASES

NOW = datetime.datetime(2024, 7, 26, 13, 5)
TARGET = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "jinja"


class Generation(jinja2.ext.Extension):
    """{% generation %} renders its body in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class ChatNamespace(jinja2.utils.Namespace):
    def __setitem__(self, name, value):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError("a name with an underscore")
        super().__setitem__(name, value)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime,
                       namespace=ChatNamespace)
    return env


def expected(env, template, variables):
    try:
        parsed = env.from_string(template)
    except jinja2.TemplateSyntaxError as problem:
        return {"syntax_error": str(problem.message)}
    except SyntaxError as problem:  # from Python's own compiler
        return {"syntax_error": str(problem)}
    try:
        return {"output": parsed.render(**variables)}
    except Exception as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}


def main():
    env = environment()
    TARGET.mkdir(parents=True, exist_ok=True)
    for subject, cases in CASES.items():
        rows = []
        for case in cases:
            template, variables = case if isinstance(case, tuple) else (case, {})
            rows.append({"template": template, "variables": variables,
                         **expected(env, template, variables)})
        path = TARGET / (subject.replace(" ", "_") + ".json")
        path.write_text(json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
                        encoding="utf-8")
        failed = sum("error" in row or "syntax_error" in row for row in rows)
        print(f"{path.name}: {len(rows)} cases, {failed} of them errors")


if __name__ == "__main__":
    main()
