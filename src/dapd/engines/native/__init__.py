"""The native engine: a method's step as a short program, and a problem in the layout that the C++ core reads."""
