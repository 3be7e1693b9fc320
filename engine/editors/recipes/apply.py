"""Applying one recipe to a workspace: add, vary, adopt, remove."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.editors.recipes import source
from engine.editors.recipes.catalogue import RECIPES, Recipe, module_source

Files = dict[str, bytes]
_PACKAGE = "mechanisms/__init__.py"


class Change(NamedTuple):
    """What one application did: the mechanism, its constants, and the files it touched."""

    mechanism: str
    action: str  # added | varied | adopted
    values: Mapping[str, Any]
    files: tuple[str, ...]


class Applied(NamedTuple):
    """A workspace after a change."""

    files: Files
    change: Change


def present(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The mechanisms of a workspace: registered modules, then settings that aren't plain."""
    settings = [recipe for recipe in RECIPES.values() if recipe.setting]
    wanted = [source.LIST, *(recipe.setting for recipe in settings)]
    found = source.constants(files.get(source.HARNESS, b""), wanted)
    names = [r.name for r in settings if found.get(r.setting) in r.choices[r.setting]]
    return (*source.listed(found.get(source.LIST)), *names)


def applicable(files: Mapping[str, bytes], recipe: Recipe) -> bool:
    """Whether the harness follows the convention and has the seams and tools that are needed."""
    text = files.get(source.HARNESS, b"")
    try:
        source.constant(text, recipe.setting or source.LIST)
    except ValueError:
        return False
    return all(word.encode() in text for word in recipe.needs)


def values(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    """The present values of a mechanism's constants."""
    recipe = RECIPES[name]
    where = source.HARNESS if recipe.setting else source.module_path(name)
    return source.constants(files.get(where, b""), list(recipe.choices))


def apply(files: Mapping[str, bytes], name: str, rng: random.Random) -> Applied | None:
    """The recipe applied: added where it's absent, else one of its constants varied.

    None where it can't be applied: the harness lacks a seam, or there is nothing to vary.
    """
    recipe = RECIPES[name]
    if not applicable(files, recipe):
        return None
    if name in present(files):
        return vary(files, name, rng)
    if recipe.setting:
        return _set(files, name, "added", recipe.setting, recipe.choices[recipe.setting][0])
    return _install(files, name, {name: recipe.source()}, "added")


def vary(files: Mapping[str, bytes], name: str, rng: random.Random) -> Applied | None:
    """Another value for one constant of a mechanism that is there. None if none may vary."""
    recipe, now = RECIPES[name], values(files, name)
    others = [
        (key, value)
        for key, choices in recipe.choices.items()
        if key in now
        for value in choices
        if value != now[key]
    ]
    if not others:
        return None
    key, value = rng.choice(others)
    return _set(files, name, "varied", key, value)


def adopt(files: Mapping[str, bytes], donor: Mapping[str, bytes], name: str) -> Applied | None:
    """The donor's own version of a mechanism, with its constants and the modules it imports.

    None where the donor's code is what the workspace has already, or can't be taken over.
    """
    recipe = RECIPES.get(name)
    if recipe is not None and recipe.setting:
        value = _settled(donor, recipe)
        if not applicable(files, recipe) or value in (None, _settled(files, recipe)):
            return None
        return _set(files, name, "adopted", recipe.setting, value)
    body = donor.get(source.module_path(name))
    if body is None or (recipe is not None and not applicable(files, recipe)):
        return None
    if name in source.registered(files) and files.get(source.module_path(name)) == body:
        return None
    taken = {name: body}
    try:
        for needed in source.support(body):
            path = source.module_path(needed)
            if path in donor and path not in files:
                taken[needed] = donor[path]
        return _install(files, name, taken, "adopted")
    except ValueError:  # a module that can't be read, or no list to name it in
        return None


def remove(files: Mapping[str, bytes], base: Mapping[str, bytes], name: str) -> Files:
    """The workspace without a mechanism; a setting becomes the base's again."""
    recipe = RECIPES.get(name)
    left = dict(files)
    if recipe is not None and recipe.setting:
        before = source.constant(base[source.HARNESS], recipe.setting)
        return {**left, **_set(left, name, "removed", recipe.setting, before).files}
    names = [each for each in source.registered(files) if each != name]
    left[source.HARNESS] = source.register(left[source.HARNESS], names)
    left.pop(source.module_path(name), None)
    return left


def _settled(files: Mapping[str, bytes], recipe: Recipe) -> Any:
    try:
        return source.constant(files[source.HARNESS], recipe.setting)
    except (KeyError, ValueError):
        return None


def _set(files: Mapping[str, bytes], name: str, action: str, key: str, value: Any) -> Applied:
    where = source.HARNESS if RECIPES[name].setting else source.module_path(name)
    new = {**files, where: source.set_constant(files[where], key, value)}
    return Applied(new, Change(name, action, {key: value}, (where,)))


def _install(
    files: Mapping[str, bytes], name: str, modules: Mapping[str, bytes], action: str
) -> Applied | None:
    """Write the modules and what they import, and list the mechanism at its rank."""
    new = dict(files)
    touched = [source.HARNESS]
    wanted = dict(modules)
    while wanted:
        module, body = wanted.popitem()
        path = source.module_path(module)
        touched.append(path)
        new[path] = body
        for needed in source.support(body):
            if source.module_path(needed) not in new and needed not in wanted:
                try:
                    wanted[needed] = module_source(needed)
                except FileNotFoundError:
                    return None
    new.setdefault(_PACKAGE, b'"""Mechanisms that take part in an episode through hooks."""\n')
    names = _ordered([*(n for n in source.registered(files) if n != name)], name)
    new[source.HARNESS] = source.register(new[source.HARNESS], names)
    changed = tuple(path for path in sorted(set(touched)) if new[path] != files.get(path))
    kept = values(new, name) if name in RECIPES else {}
    return Applied(new, Change(name, action, kept, changed)) if changed else None


def _ordered(names: list[str], new: str) -> list[str]:
    """``new`` put before the first mechanism of a higher rank; unknown ones keep their place."""
    rank = RECIPES[new].rank if new in RECIPES else 1000
    for index, name in enumerate(names):
        if name in RECIPES and RECIPES[name].rank > rank:
            return [*names[:index], new, *names[index:]]
    return [*names, new]
