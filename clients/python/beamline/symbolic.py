# SPDX-License-Identifier: MIT
"""Whole numbers that a graph has by name: ``Variable("n", 1, 10).bind(3)``, and what is computed of them.

They stand for sizes, places and values of a graph, whose structure does not depend on what they are bound to; so the server
has one plan for all of it, and a TinyJit one program.  Where a plain number is taken of one (``int(n)``, ``range(n)``, a
comparison that its range does not decide), a function under capture becomes one for that value: see Pins.
"""
from __future__ import annotations

import re
from typing import Any, Iterable

ONLY_INT = frozenset((int,))
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,127}")


class VariableError(AssertionError, ValueError):
    """A Variable out of its range, without a value, or with two."""


class Pins:
    """The names of Variables whose value was used as a plain number while a function is captured; None outside of that."""

    names: set | None = None


class Atom:
    """What terms are made of: a Variable, or a quotient or remainder that is no sum of products.

    text: as the server reads it     lo, hi: its bounds     parts: (x, "//" or "%", y) of a quotient or remainder, None for a Variable
    """

    __slots__ = ("text", "lo", "hi", "variables", "parts")

    def __init__(self, text: str, lo: int, hi: int, variables: dict, parts: tuple | None = None):
        self.text, self.lo, self.hi, self.variables, self.parts = text, lo, hi, variables, parts

    def compute(self, values: dict) -> int:
        """The value of the atom for these values of the Variables."""
        if self.parts is None:
            return values[next(iter(self.variables))]
        x, sign, by = self.parts
        return x.evaluate(values) // by.evaluate(values) if sign == "//" else x.evaluate(values) % by.evaluate(values)


class Symbolic:
    """A sum of products of Variables.  Equal if the formula is; bounds decide comparisons, else the value that it is bound to.

    terms: {(texts of atoms in order): coefficient}     atoms: by their texts     variables: {name: (least, most)}
    values: {name: value} of those that are bound
    """

    __slots__ = ("terms", "atoms", "variables", "values", "lo", "hi", "text", "key")

    def __init__(self, terms: dict, atoms: dict, values: dict):
        self.terms = {atom: count for atom, count in sorted(terms.items(), reverse=True) if count}
        self.atoms = {text: atoms[text] for names in self.terms for text in names}
        self.variables: dict = {}
        for atom in self.atoms.values():
            merge(self.variables, atom.variables, "has the ranges")
        self.values = {name: value for name, value in values.items() if name in self.variables}
        self.lo = self.hi = 0
        for names, count in self.terms.items():
            low, high = count, count
            for text in names:
                ends = [x * y for x in (low, high) for y in (self.atoms[text].lo, self.atoms[text].hi)]
                low, high = min(ends), max(ends)
            self.lo, self.hi = self.lo + low, self.hi + high
        self.text = " + ".join(" * ".join([str(count)] * (count != 1 or not names) + list(names))
                               for names, count in self.terms.items()) or "0"
        self.key = (self.text, tuple(sorted(self.variables.items())))

    # ---- what it is

    @property
    def vmin(self) -> int:
        """Its least value."""
        return self.lo

    @property
    def vmax(self) -> int:
        """Its greatest value."""
        return self.hi

    @property
    def is_plain(self) -> bool:
        """Whether it is one Variable itself, so that an input of a graph may have it as a size."""
        return self.text in self.variables

    def evaluate(self, values: dict) -> int:
        """Its value where the Variables have these."""
        total = 0
        for names, count in self.terms.items():
            for text in names:
                count *= self.atoms[text].compute(values)
            total += count
        return total

    def now(self) -> int:
        """What it is bound to; VariableError where a Variable of it is not bound."""
        missing = [name for name in self.variables if name not in self.values]
        if missing:
            raise VariableError(f"Variable {missing[0]!r} is not bound")
        return self.evaluate(self.values)

    def rebound(self, values: dict):
        """The same with these values."""
        return Symbolic(self.terms, self.atoms, {**self.values, **values})

    def __index__(self) -> int:
        value = self.now()
        if Pins.names is not None:
            Pins.names.update(self.variables)
        return value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __bool__(self) -> bool:
        return True if self.lo > 0 or self.hi < 0 else self.__index__() != 0

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        bound = ", ".join(f"{name}={value}" for name, value in self.values.items())
        return self.text + (f" [{bound}]" if bound else "")

    # ---- arithmetic

    def __add__(self, other) -> Any:
        return combine(self, other, 1) if is_size(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other) -> Any:
        return combine(self, other, -1) if is_size(other) else NotImplemented

    def __rsub__(self, other) -> Any:
        return combine(-self, other, 1) if is_size(other) else NotImplemented

    def __neg__(self) -> Any:
        return self * -1

    def __mul__(self, other) -> Any:
        if not is_size(other):
            return NotImplemented
        other = symbolic(other)
        terms: dict = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                names = tuple(sorted(left + right))
                terms[names] = terms.get(names, 0) + a * b
        return simplest(terms, atoms_of(self, other), join(self.values, other.values))

    __rmul__ = __mul__

    def __floordiv__(self, other) -> Any:
        return divide(self, other)[0] if is_size(other) else NotImplemented

    def __mod__(self, other) -> Any:
        return divide(self, other)[1] if is_size(other) else NotImplemented

    def __divmod__(self, other) -> Any:
        return divide(self, other) if is_size(other) else NotImplemented

    # ---- comparison

    def __eq__(self, other) -> bool:
        return isinstance(other, Symbolic) and self.key == other.key

    def __lt__(self, other) -> bool:
        return decide(self - other, lambda low, high: high < 0, lambda low, high: low >= 0, lambda x: x < 0)

    def __le__(self, other) -> bool:
        return decide(self - other, lambda low, high: high <= 0, lambda low, high: low > 0, lambda x: x <= 0)

    def __gt__(self, other) -> bool:
        return not self <= other

    def __ge__(self, other) -> bool:
        return not self < other


def plain_operator(name: str):
    def method(self, *others):
        return getattr(int(self), name)(*(int(other) if isinstance(other, Symbolic) else other for other in others))
    return method


# Of the numbers that it is bound to.
for _name in ("__truediv__", "__rtruediv__", "__pow__", "__rpow__", "__rfloordiv__", "__rmod__", "__abs__"):
    setattr(Symbolic, _name, plain_operator(_name))


class Variable(Symbolic):
    """A whole number with a name and a range, for sizes, indices and values: ``Variable("n", 1, 10).bind(3)``.

    dtype: the dtype of a Tensor that is made from the Variable, by default dtypes.default_int
    """

    __slots__ = ("name", "min", "max", "dtype")

    def __init__(self, name: str, min: int, max: int, value: int | None = None, dtype=None):  # pylint: disable=redefined-builtin
        if not NAME.fullmatch(name):
            raise VariableError(f"{name!r} is not a valid name of a Variable")
        if min > max:
            raise VariableError(f"Variable {name!r}: {min} is above {max}")
        if value is not None and not min <= value <= max:
            raise VariableError(f"bind {value} not in range [{min}, {max}]")
        if dtype is not None and "int" not in dtype.name:
            raise VariableError(f"Variable {name!r}: dtype is {dtype}; it must be an integer dtype")
        self.name, self.min, self.max, self.dtype = name, min, max, dtype
        # The server's sizes are not negative: there it is counted from its least value.
        text = name if min >= 0 else f"({name} - {-min})"
        atom = Atom(text, min, max, {name: (min, max)})
        super().__init__({(text,): 1}, {text: atom}, {} if value is None else {name: value})

    def bind(self, value: int) -> Variable:
        """The same with a value."""
        if self.values:
            raise VariableError(f"Variable {self.name!r} is bound already")
        return Variable(self.name, self.min, self.max, int(value), self.dtype)

    def unbind(self) -> tuple:
        """(the same without a value, its value)"""
        return Variable(self.name, self.min, self.max, dtype=self.dtype), self.now()

    @property
    def val(self) -> int:
        """Its value."""
        return self.__index__()

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.min}, {self.max})" + (f".bind({self.now()})" if self.values else "")


def is_size(value) -> bool:
    """Whether it is a whole number, bound to a name or not."""
    return isinstance(value, (int, Symbolic))


def symbolic(value) -> Symbolic:
    """A whole number as a formula."""
    return value if isinstance(value, Symbolic) else Symbolic({(): value}, {}, {})


def simplest(terms: dict, atoms: dict, values: dict):
    """The formula; where it has no Variables in it, the number."""
    made = Symbolic(terms, atoms, values)
    return made if made.atoms else made.terms.get((), 0)


def merge(into: dict, more: dict, what: str) -> None:
    """Add ranges or values by names; VariableError where a name has two."""
    for name, value in more.items():
        if into.setdefault(name, value) != value:
            raise VariableError(f"Variable {name!r} {what} {into[name]} and {value} in one graph")


def join(a: dict, b: dict) -> dict:
    """Values of both."""
    both = dict(a)
    merge(both, b, "is bound to")
    return both


def atoms_of(x: Symbolic, y: Symbolic) -> dict:
    """The atoms of both; VariableError where one name has two ranges."""
    merge(dict(x.variables), y.variables, "has the ranges")
    return {**x.atoms, **y.atoms}


def combine(x: Symbolic, other, sign: int):
    other = symbolic(other)
    terms = dict(x.terms)
    for names, count in other.terms.items():
        terms[names] = terms.get(names, 0) + sign * count
    return simplest(terms, atoms_of(x, other), join(x.values, other.values))


def divide(x: Symbolic, other) -> tuple:
    """(floor of the quotient, remainder)"""
    by = symbolic(other)
    if by.lo < 1:
        return divmod(int(x), int(by))
    values = join(x.values, by.values)
    if len(by.terms) == 1:
        (names, number), = by.terms.items()
        whole, rest = {}, {}
        for each, count in x.terms.items():
            left = list(each)
            if count % number == 0 and all(left.count(name) >= names.count(name) for name in names):
                for name in names:
                    left.remove(name)
                whole[tuple(left)] = count // number
            else:
                rest[each] = count
        quotient = simplest(whole, x.atoms, values)
        x = symbolic(simplest(rest, x.atoms, values))
    else:
        quotient = 0
    if 0 <= x.lo and x.hi < by.lo:
        return quotient, x.terms.get((), 0) if not x.atoms else x
    if not x.atoms and not by.atoms:
        return quotient + x.lo // by.lo, x.lo % by.lo
    ends = x.lo // (by.lo if x.lo < 0 else by.hi), x.hi // (by.hi if x.hi < 0 else by.lo)
    return quotient + new_atom(x, "//", by, ends), new_atom(x, "%", by, (0, by.hi - 1))


def new_atom(x: Symbolic, sign: str, by: Symbolic, ends: tuple) -> Symbolic:
    """A quotient or remainder as an atom of its own."""
    text, variables = f"(({x.text}) {sign} ({by.text}))", dict(x.variables)
    merge(variables, by.variables, "has the ranges")
    return Symbolic({(text,): 1}, {text: Atom(text, *ends, variables, (x, sign, by))}, join(x.values, by.values))


def decide(difference, surely, never, of_value) -> bool:
    """A comparison with zero: by the bounds, else by the value."""
    if not isinstance(difference, Symbolic):
        return of_value(difference)
    if surely(difference.lo, difference.hi):
        return True
    if never(difference.lo, difference.hi):
        return False
    return of_value(int(difference))


def is_known(low, high) -> bool:
    """Whether low <= high for every value of the Variables in them."""
    difference = high - low
    return difference.lo >= 0 if isinstance(difference, Symbolic) else difference >= 0


def fixed(value) -> Any:
    """An index or shape with plain numbers in the place of Variables and formulas.  This counts as a use of their values."""
    if isinstance(value, Symbolic):
        return int(value)
    if isinstance(value, slice):
        return slice(fixed(value.start), fixed(value.stop), fixed(value.step))
    return type(value)([fixed(each) for each in value]) if isinstance(value, (tuple, list)) else value


def now(value) -> Any:
    """A size, or a tuple of sizes, as the numbers that they are bound to; does not count as use of a plain number."""
    if value.__class__ is tuple:
        return tuple([each if each.__class__ is int else now(each) for each in value])
    return value.now() if isinstance(value, Symbolic) else value


def rebound(shape: tuple, values: dict) -> tuple:
    """A shape with other values."""
    return tuple(size.rebound(values) if isinstance(size, Symbolic) else size for size in shape)


def find(value) -> Iterable[Symbolic]:
    """The formulas in a number, text, shape, attribute or index."""
    if isinstance(value, Symbolic):
        yield value
    elif isinstance(value, slice):
        yield from find((value.start, value.stop, value.step))
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from find(each)


def as_text(value) -> Any:
    """An attribute with formulas as the server reads them."""
    if isinstance(value, Symbolic):
        return value.text
    return [as_text(each) for each in value] if isinstance(value, (tuple, list)) else value


class Bindings:
    """The Variables of a graph: their ranges, and what they are bound to."""

    def __init__(self) -> None:
        self.ranges: dict = {}
        self.values: dict = {}

    def add(self, value) -> None:
        """Those in a shape or attribute."""
        if value.__class__ is tuple and ONLY_INT.issuperset(map(type, value)):
            return
        for each in find(value):
            merge(self.ranges, each.variables, "has the ranges")
            merge(self.values, each.values, "is bound to")

    def dims(self) -> dict:
        """The member "dims" of a document."""
        return {name: [max(low, 0), high - min(low, 0)] for name, (low, high) in self.ranges.items()}

    def sizes(self, values: dict | None = None) -> dict:
        """The member "sizes" of a request; VariableError where one is not bound."""
        values = self.values if values is None else {**self.values, **values}
        for name, (low, high) in self.ranges.items():
            if name not in values:
                raise VariableError(f"Variable {name!r} is not bound")
            if not low <= values[name] <= high:
                raise VariableError(f"bind {values[name]} not in range [{low}, {high}]")
        return {name: values[name] - min(low, 0) for name, (low, _) in self.ranges.items()}
