"""The prompts and messages of CiteME's authors, read from a clone of their repository.

https://github.com/bethgelab/CiteME, at commit dc43ae4. Nothing of it is bundled, and nothing in a clone is
executed: prompts are files, other texts are string constants of its source code, and the description of
the actions is LangChain's, of the classes in `data_model.py`.
"""

import ast
from pathlib import Path
from typing import Any

from .. import HoldfastError
from .data import reading
from .records import fingerprint

_TEMPLATES = "src/retriever/prompt_templates"
_AGENT, _MODELS = "src/retriever/agent.py", "src/utils/data_model.py"
_FORMAT = "<FORMAT_INSTRUCTIONS>"  # replaced by the description of the actions
_WANTED = "a clone of https://github.com/bethgelab/CiteME with --prompts, or omit it"
# Setting: the prompt's file, and the class of a reply with its actions.
_SETTINGS = {
    ("none", False): ("zero_shot_no_search", ""),
    ("none", True): ("few_shot_no_search", ""),
    ("search", False): ("zero_shot_search", "OutputSearchOnly"),
    ("search", True): ("few_shot_search_no_read", "OutputSearchOnly"),
    ("search+read", False): ("zero_shot_search", "Output"),
    ("search+read", True): ("few_shot_search", "Output"),
}
# The fingerprints of the texts at that commit, with which the requests of the authors' program were equal.
_FINGERPRINTS = {
    ("none", False): "e5f570e9b088956e417f5f9ca0e97cbf667f6e0ce9583efffa7c5e9948699d7a",
    ("none", True): "965689ce0f70af3b59e4e4bbc6e5a1561c34505a0bbfc9ac7d57ff017605d9b1",
    ("search", False): "873a3f6ef7c3604fc268ace5d113f644d257ca6d504bfabfa09a546012b18f94",
    ("search", True): "53e0a0a9a195d8bc08bfd7ac480e064cbfc57263e3d5cda1c0b9995119430578",
    ("search+read", False): "3263919dda4d3c8d26c4bbbc830783aa5385933117d1003e4f0cddace490bdee",
    ("search+read", True): "bbc72a15d445c4c707242d1636b11394da583727b69291e1c17c3b071c426be7",
}
_Functions = dict[str, list[str]]


def is_original(texts: dict[str, Any], commands: str, demonstration: bool) -> bool:
    """Whether these are the texts of a setting at the commit of the paper's program."""
    return fingerprint(texts) == _FINGERPRINTS[commands, demonstration]


def authors_texts(clone: Path, commands: str, demonstration: bool) -> dict[str, Any]:
    """All that the model is shown in a setting apart from papers and the excerpt, as fields of `Prompt`.

    Raises `HoldfastError` if the folder is not a clone, or langchain-core is not installed.
    """
    name, reply_class = _SETTINGS[commands, demonstration]
    system, source = _text(clone / _TEMPLATES / f"{name}.txt"), _text(clone / _AGENT)
    with reading(clone / _AGENT, "CiteME's agent", _WANTED):
        classes = _classes(source)
        if commands == "none":
            introduction, *_ = _sentences(classes["LLMNoSearch"]["__call__"])
            return {"system": system, "introduction": introduction}
        functions = classes["LLMSelfAskAgentPydantic"]
        introductions = _sentences(functions[""])
        no_pdf, unreadable, *_ = _sentences(functions["_read"])
        texts = {
            "introduction": f"{introductions[commands == 'search+read' and demonstration]}\n\n",
            "last": _sentences(functions["_ask_llm"])[0],
            "nothing": _sentences(functions["__process_search"])[-1],
            "unknown": functions["__find_paper_by_id"],
            "no_pdf": no_pdf,
            "unreadable": unreadable,
        }
    schema = _schema(clone / _MODELS, reply_class)
    return {**texts, "system": system.replace(_FORMAT, _format_instructions(schema))}


def _text(path: Path) -> str:
    """The text of a file of the clone; raises `HoldfastError` if it cannot be read."""
    with reading(path, "a file of CiteME's repository", _WANTED):
        return path.read_text(encoding="utf-8")


def _classes(source: str) -> dict[str, _Functions]:
    """The string constants of each class by function, and under "" those outside its functions."""
    classes: dict[str, _Functions] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            functions: _Functions = {"": []}
            for part in node.body:
                name = part.name if isinstance(part, ast.FunctionDef) else ""
                functions.setdefault(name, []).extend(_constants(part))
            classes[node.name] = functions
    return classes


def _constants(node: ast.AST) -> list[str]:
    """The string constants in a node, in the order of the source."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    return [text for child in ast.iter_child_nodes(node) for text in _constants(child)]


def _sentences(constants: list[str]) -> list[str]:
    """The constants that are sentences rather than names, paths or parts of a layout."""
    return [text for text in constants if len(text) > 20 and ". " in f"{text} "]


# ---- the description of the actions ----


def _format_instructions(schema: dict[str, Any]) -> str:
    """LangChain's description of a schema, as `PydanticOutputParser` gives it."""
    try:
        from langchain_core.output_parsers import PydanticOutputParser
        from pydantic import BaseModel
    except ImportError as error:
        raise HoldfastError(
            f"--prompts needs LangChain's text ({error}). Run: pip install 'holdfast[citeme]'."
        ) from None

    class Reply(BaseModel):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return schema

    return PydanticOutputParser(pydantic_object=Reply).get_format_instructions()


def _schema(path: Path, name: str) -> dict[str, Any]:
    """The JSON schema of a class in the authors' file, as pydantic's first version writes it."""
    source = _text(path)
    with reading(path, "CiteME's actions", _WANTED):
        nodes = ast.parse(source).body
        classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        content, used = _object(classes[name]), _names(classes[name])
        definitions = {n: _object(classes[n]) for n in used if n in classes}
    del content["title"], content["type"]
    return {**content, "definitions": definitions}


def _object(node: ast.ClassDef) -> dict[str, Any]:
    """The schema of a class whose fields are strings, one of several strings, or one of several classes."""
    properties: dict[str, Any] = {}
    for field in node.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            raise ValueError(f"{node.name} has more than fields")
        name = field.target.id
        entry: dict[str, Any] = {"title": name.replace("_", " ").title()}
        if isinstance(field.value, ast.Call):
            options = {option.arg: option.value for option in field.value.keywords}
            entry["description"] = ast.literal_eval(options["description"])
        if choices := _constants(field.annotation):
            entry |= {"enum": choices, "type": "string"}
        elif isinstance(field.annotation, ast.Name):
            entry["type"] = "string"
        else:
            entry["anyOf"] = [{"$ref": f"#/definitions/{n}"} for n in _names(field.annotation)]
        properties[name] = entry
    kind = {"title": node.name, "type": "object"}
    return {**kind, "properties": properties, "required": list(properties)}


def _names(node: ast.AST) -> list[str]:
    """The names in a node, in the order of the source."""
    if isinstance(node, ast.Name):
        return [node.id]
    return [name for child in ast.iter_child_nodes(node) for name in _names(child)]
