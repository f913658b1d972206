"""One file per method; `METHODS` finds the class by its name."""

from importlib import import_module
from pkgutil import iter_modules

from dapd.methods.base import METHODS, Method

__all__ = ["METHODS", "Method"]

# import every file of this folder and register its methods, so a new file needs no other entry
for _file in iter_modules(__path__):
    for _thing in list(vars(import_module(f"{__name__}.{_file.name}")).values()):
        if isinstance(_thing, type) and issubclass(_thing, Method) and "name" in vars(_thing) and _thing.is_listed:
            METHODS[_thing.name] = _thing
