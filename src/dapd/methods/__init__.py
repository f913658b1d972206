"""One file per method; `METHODS` finds the class by its name."""

from importlib import import_module
from pkgutil import iter_modules

from dapd.methods.base import METHODS, Method

__all__ = ["METHODS", "Method"]

# every file of this folder that holds a method: a new one needs no entry anywhere
for _file in iter_modules(__path__):
    for _thing in list(vars(import_module(f"{__name__}.{_file.name}")).values()):
        if isinstance(_thing, type) and issubclass(_thing, Method) and "name" in vars(_thing):
            METHODS[_thing.name] = _thing
