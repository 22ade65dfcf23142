"""Import statements of a syntax tree."""

import ast


def imports(node, around=()):
    """Every import statement with the statements around it, from the outermost in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, around
        elif isinstance(child, (ast.stmt, ast.excepthandler)):
            yield from imports(child, (*around, child))


def packages(statement):
    """First names of the packages that an absolute import names."""
    if isinstance(statement, ast.Import):
        return {alias.name.split(".")[0] for alias in statement.names}
    return {statement.module.split(".")[0]} if not statement.level else set()
