"""One file per method; `METHODS` finds the class by its name."""

from dapd.methods.apapc import APAPC
from dapd.methods.base import METHODS, Method
from dapd.methods.capd import CAPD
from dapd.methods.condat_vu import CondatVu
from dapd.methods.papc import PAPC
from dapd.methods.x_dapd import XDAPD
from dapd.methods.x_sbc import XSBC
from dapd.methods.x_sbc_nonseparable import XSBCNonseparable
from dapd.methods.y_dapd import YDAPD
from dapd.methods.y_sbc import YSBC

__all__ = ["METHODS", "Method"]

for _method in (XDAPD, YDAPD, XSBC, YSBC, XSBCNonseparable, PAPC, APAPC, CAPD, CondatVu):
    METHODS[_method.name] = _method
