"""Nothing asks for a task or a model by its name: what they are is said by their own files."""

import ast
from pathlib import Path

import regard
from regard.models import registry as models
from regard.tasks import registry as tasks

SOURCE = Path(regard.__file__).parent


def own(name: str, path: Path) -> bool:
    """Whether a file belongs to a task or a model, or maps a family of models to the names of others."""
    inside = path.relative_to(SOURCE)
    if inside.parts[:2] in (("tasks", name), ("checkpoints", "foreign")):
        return True
    return inside.parts[0] == "models" and inside.stem == name.replace("-", "_")


def compared(tree: ast.AST) -> list[tuple[int, str, str]]:
    """Literals that something called a task or a model is compared with: line, what is compared, literal."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = " ".join(ast.unparse(side) for side in sides if not isinstance(side, ast.Constant))
            literals = [part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)]
            found += [(node.lineno, words, text) for text in literals if isinstance(text, str)]
    return found


def test_no_name_is_compared_with_a_literal_elsewhere():
    names = {*models.OURS, *tasks.OURS}
    asks = ("task", "model", "'name'")
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {words} ~ {text!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, words, text in compared(ast.parse(path.read_text(encoding="utf-8")))
        if text in names and any(word in words for word in asks) and not own(text, path)
    ]
    assert wrong == []
