"""What the project says about itself is consistent: versions, dependencies, supported Python versions."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from imports import imports, packages

import lssvm

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DISTRIBUTIONS = {"sklearn": "scikit-learn", "distributed": "dask", "array_api_compat": "array-api-compat"}
UNDECLARED = {"cupy", "cupyx"}  # which package of CuPy fits depends on the user's CUDA


def names(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert PROJECT["version"] == lssvm.__version__
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == lssvm.__version__


def test_the_version_is_in_the_changelog_with_its_date():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    released = re.search(r"^date-released: (.*)$", citation, re.MULTILINE)[1]
    assert f"\n## [{lssvm.__version__}] - {released}\n" in changelog


def test_imported_packages_are_declared():
    """At the top of a file: as a dependency. Inside a function: as a dependency or in an extra."""
    required = names(PROJECT["dependencies"])
    known = required | {name for extra in PROJECT["optional-dependencies"].values() for name in names(extra)}
    for path in sorted(Path(lssvm.__file__).parent.rglob("*.py")):
        for statement, around in imports(ast.parse(path.read_text(encoding="utf-8"))):
            optional = any(isinstance(outer, (ast.FunctionDef, ast.If, ast.Try)) for outer in around)
            for module in packages(statement) - sys.stdlib_module_names - UNDECLARED:
                declared = known if optional else required
                assert DISTRIBUTIONS.get(module, module) in declared | {"lssvm"}, f"{path.name} imports {module}"


def test_lowest_versions_are_those_in_the_documentation():
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    lowest = dict(requirement.split(">=") for requirement in PROJECT["dependencies"])
    named = re.search(r"\(Python 3.11, NumPy (.*), SciPy (.*) and scikit-learn (.*) or later\)", page).groups()
    assert named == (lowest["numpy"], lowest["scipy"], lowest["scikit-learn"])


def documented():
    """The table of dependencies: name, extra, lowest version, licence."""
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    return re.findall(r"^\| ([\w-]+) \| (?:always|extra `(\w+)`) \| ([\d.]+) \| ([^|]+) \|", page, re.MULTILINE)


def test_dependencies_are_documented():
    wanted = {(line, "") for line in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    wanted |= {
        (line, name) for name in extras.keys() - {"all", "bench", "test", "docs", "dev"} for line in extras[name]
    }
    assert {(f"{name}>={lowest}", extra) for name, extra, lowest, _ in documented()} == {
        (re.sub(r"\[.*\]", "", line), extra) for line, extra in wanted
    }


@pytest.mark.parametrize(("name", "licence"), [(row[0], row[3]) for row in documented()])
def test_licences_are_those_of_the_installed_packages(name, licence):
    """Older packages state their licence in a classifier, or in the text of the licence."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    classifiers = [line for line in found.get_all("Classifier", []) if line.startswith("License ::")]
    stated = " ".join([found.get("License-Expression", ""), found.get("License", ""), *classifiers])
    family = {"PSF-based (own licence)": "Python Software Foundation"}.get(licence, licence.split("-")[0])
    assert re.search(rf"\b{family}\b", stated), stated[:200]


def test_supported_python_versions_are_declared_and_tested():
    prefix = "Programming Language :: Python :: 3."
    minors = [int(line.removeprefix(prefix)) for line in PROJECT["classifiers"] if line.startswith(prefix)]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    assert matrix == ", ".join(f'"3.{minor}"' for minor in minors)
