"""One file a method; `METHODS` finds the class by its name."""

from dapd.methods.apapc import APAPC
from dapd.methods.base import Method
from dapd.methods.capd import CAPD
from dapd.methods.condat_vu import CondatVu
from dapd.methods.papc import PAPC
from dapd.methods.x_dapd import XDAPD
from dapd.methods.y_dapd import YDAPD

__all__ = ["METHODS", "Method"]

METHODS: dict[str, type[Method]] = {method.name: method for method in (XDAPD, YDAPD, PAPC, APAPC, CAPD, CondatVu)}
