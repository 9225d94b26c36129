# SPDX-License-Identifier: MIT
"""Templates for test_chat_templates.py: at least one for each row of proto/chat/rows.def, and special cases of the language.

Their variables are those of jinja_random.py.
"""

EXPRESSIONS = r"""
-3|abs ~ 2.5|abs ~ true|abs
'x'|abs
d|attr('items') is callable ~ (d|attr('city') is defined)
[1, 2, 3, 4, 5, 6, 7]|batch(3)|list ~ [1, 2]|batch(3, 'x')|list
'hELLO world'|capitalize ~ 'ß'|capitalize ~ 'ǆ'|capitalize
'ab'|center(7) ~ '|' ~ 'abc'|center(8) ~ '|' ~ 'x'|center
l|count ~ 'äb'|count
missing|d('x') ~ ''|d('y') ~ ''|d('z', true) ~ none|default('n') ~ none|default('m', boolean=true)
d|dictsort ~ d|dictsort(true) ~ {'b': 1, 'A': 3, 'a': 2}|dictsort ~ {'b': 1, 'A': 3}|dictsort(false, 'value') ~ {'b': 1, 'A': 3}|dictsort(by='value', reverse=true)
d|dictsort(by='x')
'<&>"\''|e ~ ('<'|e)|escape ~ 5|escape
('<'|e)|forceescape ~ '<'|forceescape
1|filesizeformat ~ 999|filesizeformat ~ 1000|filesizeformat ~ 123456789|filesizeformat ~ 1048576|filesizeformat(true) ~ '5000'|filesizeformat
'x'|filesizeformat
l|first ~ 'äb'|first ~ d|first ~ []|first ~ (l|map('string')|first)
'2.5'|float ~ ' 1e3 '|float ~ 'x'|float ~ 'x'|float(7) ~ none|float ~ true|float ~ '1_0'|float ~ 'inf'|float ~ '-nan'|float
missing|float
'%s-%d-%5.2f|%-5s|%05d|%x|%r|%%|%+d|% d|%c|%e|%g|%o|%#x|%i|%5s|%.2s'|format('a', 3, 1.005, 'b', 42, 255, 'q', 1, 2, 'z', 12345.678, 0.0001, 8, 255, 3.9, 'ä', 'xyz')
'%(a)s %(b)d'|format(a=1, b=2)
'%s'|format(1, 2)
'%s %s'|format(1)
'%d'|format('x')
'%s' % ('x',) ~ '%s %s' % (1, [2]) ~ '%(a)s' % {'a': 1} ~ '%s' % [1] ~ 'x' % {} ~ '%s' % d
'%y' % 1
'x' % 1
'{"a": [1, 2.5, null, true, "ä"]}'|from_json
'{'|from_json
[{'a': 1, 'b': 2}, {'a': 2}, {'a': 1, 'b': 3}]|groupby('a') ~ [{'a': 'X'}, {'a': 'x'}]|groupby('a') ~ [{'a': 'X'}, {'a': 'x'}, {}]|groupby('a', default='y', case_sensitive=true)
([{'a': 1, 'b': 2}]|groupby('a'))[0].grouper ~ ([{'a': 1, 'b': 2}]|groupby('a'))[0].list
'a\nb\n\nc'|indent ~ 'a\nb\n\nc'|indent(2, true) ~ 'a\nb\n\nc\n'|indent('--', first=true, blank=true) ~ ''|indent(3, true) ~ 'x\n'|indent
5|indent
'12'|int ~ '12.7'|int ~ ' -3 '|int ~ 'x'|int ~ 'x'|int(5) ~ '0x1f'|int(base=16) ~ '1f'|int(0, 16) ~ 3.9|int ~ -3.9|int ~ none|int ~ true|int ~ '1_000'|int ~ '0b11'|int(base=2) ~ []|int
missing|int
d|items|list ~ missing|items|list
5|items|list
[1, 'a', none, 2.5]|join(', ') ~ l|join ~ [{'a': 1}, {'a': 2}]|join('-', attribute='a') ~ 'abc'|join('.') ~ d|join(',') ~ [1, 2]|join(0)
5|join
l|last ~ 'abä'|last ~ d|last ~ []|last
l|map('string')|last
l|length ~ d|length ~ 'äöü'|length ~ range(5)|length ~ missing|length ~ d.items()|length
5|length
l|map('string')|length
'abä'|list ~ d|list ~ range(3)|list ~ (1, 2)|list ~ missing|list
5|list
'ÀBC ΑΣ ΑΣΑ İ'|lower ~ 5|lower ~ none|lower
[1, 2]|map('string')|list ~ [{'a': {'b': 1}}, {'a': {}}]|map(attribute='a.b')|list ~ [{'a': 1}, {}]|map(attribute='a', default=0)|list ~ ['a', 'b']|map('replace', 'a', 'c')|list ~ [[1, 2], [3, 4]]|map(attribute=1)|list ~ [[1, 2]]|map(attribute='0')|list ~ none|map('x')|list
[1]|map('nothing')|list
[1]|map|list
([1, 2]|map('nothing')) is iterable
[3, 1, 2]|max ~ ['b', 'A', 'c']|max ~ [{'a': 1}, {'a': 5}]|max(attribute='a') ~ []|max ~ ['a', 'B']|max(case_sensitive=true)
[3, 1, 2]|min ~ ['b', 'A', 'c']|min ~ [{'a': 1}, {'a': 5}]|min(attribute='a') ~ []|min
[1, 'a']|min
[1, 2, 3, 4]|reject('odd')|list ~ [0, 1, '', 'a']|reject|list
[{'a': 1}, {'a': 2}, {}]|rejectattr('a')|list ~ [{'a': 1}, {'a': 2}]|rejectattr('a', 'eq', 1)|list
'aaa'|replace('a', 'b') ~ 'aaa'|replace('a', 'b', 2) ~ 'abc'|replace('', '-') ~ 123|replace(2, 'x') ~ 'äöä'|replace('ä', '')
'a'|replace('b')
'abä'|reverse ~ [1, 2, 3]|reverse|list ~ (1, 2)|reverse|list ~ range(3)|reverse|list
5|reverse
2.5|round ~ 3.5|round ~ 2.675|round(2) ~ 42|round ~ 1234|round(-2) ~ 1250|round(-2) ~ 1350|round(-2) ~ 42.55|round(1, 'floor') ~ 42.51|round(1, 'ceil') ~ -0.4|round ~ 1234.5|round(-2) ~ 7|round(1, 'ceil') ~ true|round
'x'|round
1.5|round(0, 'up')
('<' |safe) + '<' ~ '|' ~ ('<'|safe) ~ '<' ~ ('x' + ('<'|safe)) ~ ('<'|safe|upper) ~ [('a'|safe)]
[1, 2, 3, 4]|select('odd')|list ~ [0, 1, '', 'a']|select|list ~ [1, 2, 3]|select('gt', 1)|list ~ [1, 2, 3]|select('in', [1, 3])|list
[1, 2]|select('nothing')|list
[{'a': 1}, {'a': 0}, {}]|selectattr('a')|list ~ [{'a': {'b': 2}}, {'a': {'b': 3}}]|selectattr('a.b', 'eq', 2)|list ~ [{'a': none}, {}]|selectattr('a', 'defined')|list ~ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join(',')
[1]|selectattr|list
range(7)|slice(3)|list ~ range(7)|slice(3, 'x')|list ~ range(6)|slice(3, 'x')|list ~ []|slice(2)|list
[3, 1, 2]|sort ~ ['b', 'A', 'a', 'B']|sort ~ ['b', 'A', 'a']|sort(case_sensitive=true) ~ [3, 1, 2]|sort(reverse=true) ~ [{'a': 2, 'b': 1}, {'a': 1, 'b': 5}, {'a': 1, 'b': 2}]|sort(attribute='a,b') ~ [{'a': 2}, {'a': 1}]|sort(attribute='a')|map(attribute='a')|list ~ 'cab'|sort ~ [[2, 1], [1, 9]]|sort(attribute=0) ~ [true, 0, 2.5]|sort ~ [[2], [1, 5], [1]]|sort
[1, 'a']|sort
5|sort
5|string ~ none|string ~ [1, 'a']|string ~ 'x'|string ~ missing|string ~ 1.0|string
'<p>a <b>b</b>\n c<!-- <x> --> d</p>'|striptags
[1, 2, 3]|sum ~ [1.5, 2]|sum ~ [{'a': 1}, {'a': 2}]|sum('a') ~ [[1], [2]]|sum(start=[]) ~ []|sum ~ [1, 2]|sum(start=10)
['a']|sum
'hello world-foo (bar) [baz] <qux> {x}  ßa'|title ~ "it's"|title
d|tojson ~ d|tojson(indent=2) ~ l|tojson ~ {'b': 1, 'a': [], 'c': {}}|tojson(indent=4) ~ {'b': 1, 'a': '<ä>&\'\u2028'}|tojson(sort_keys=true) ~ 'ä😀\x7f\x01"\\'|tojson(ensure_ascii=true) ~ [1, 2]|tojson(separators=(',', ':')) ~ (1, 2)|tojson ~ {1: 2, none: 3, true: 4, 1.5: 5}|tojson ~ 1e100|tojson ~ [[], [1]]|tojson(indent='-')
missing|tojson
{(1, 2): 3}|tojson
range(3)|tojson
l|map('string')|tojson
'  a b \n'|trim ~ '|' ~ 'xxaxx'|trim('x') ~ '\u3000ä\xa0'|trim ~ 5|trim ~ none|trim ~ 'xyaYx'|trim(chars='xy')
'a'|trim(5)
'foo bar baz qux'|truncate(9) ~ '|' ~ 'foo bar baz qux'|truncate(9, true) ~ '|' ~ 'foo bar baz qux'|truncate(11) ~ '|' ~ 'foo bar baz qux'|truncate(11, false, '...', 0) ~ 'äöü äöü'|truncate(5, leeway=0, end='')
'abc'|truncate(1)
['a', 'A', 'b', 'a']|unique|list ~ [1, 1.0, true, 2]|unique|list ~ ['a', 'A']|unique(true)|list ~ [{'a': 1}, {'a': 1}, {'a': 2}]|unique(attribute='a')|list
[[1]]|unique|list
'aß ǆ ﬁ ŉ'|upper ~ 5|upper
'a b/ä?&'|urlencode ~ {'a b': 'c/d', 'e': 1}|urlencode ~ [('x', 'y z')]|urlencode ~ 5|urlencode
'a b, c-d ä_1'|wordcount ~ ''|wordcount
{'a': 1, 'b': none, 'c': '<"'}|xmlattr ~ {'a': 1}|xmlattr(false) ~ {}|xmlattr ~ {'x': missing}|xmlattr
{'a b': 1}|xmlattr
3 is odd ~ 4 is odd ~ -3 is odd ~ 3.0 is odd
'x' is odd
4 is even ~ 3 is even ~ 0 is not even
9 is divisibleby 3 ~ 9 is divisibleby(2) ~ 9 is divisibleby(num=3)
9 is divisibleby 0
missing is defined ~ d is defined ~ d.nothing is defined ~ missing is undefined ~ none is undefined
'upper' is filter ~ 'nothing' is filter ~ 'odd' is test ~ 'nothing' is test
none is none ~ 0 is none ~ missing is none
true is boolean ~ 1 is boolean ~ false is false ~ 0 is false ~ true is true ~ 1 is true
1 is integer ~ true is integer ~ 1.0 is integer ~ 1.0 is float ~ 1 is float
'abc' is lower ~ 'aB' is lower ~ '1' is lower ~ 'ABC' is upper ~ 'Ab' is upper ~ '' is upper
'a' is string ~ 1 is string ~ ('a'|safe) is string
d is mapping ~ l is mapping ~ d.items() is mapping
1 is number ~ 1.5 is number ~ true is number ~ '1' is number
l is sequence ~ d is sequence ~ 'a' is sequence ~ 1 is sequence ~ missing is sequence ~ range(2) is sequence ~ (l|map('string')) is sequence ~ d.items() is sequence
l is iterable ~ d is iterable ~ 'a' is iterable ~ 1 is iterable ~ missing is iterable ~ none is iterable ~ (l|map('string')) is iterable
range is callable ~ d.items is callable ~ d is callable ~ missing is callable ~ namespace is callable
none is sameas none ~ true is sameas(true) ~ 1 is sameas(true) ~ d is sameas(d)
('a'|e) is escaped ~ 'a' is escaped
1 is in [1, 2] ~ 'a' is in 'abc' ~ 3 is in [1] ~ 'city' is in d
1 is eq 1.0 ~ 1 is equalto 2 ~ 'a' is ne 'b' ~ 1 is gt 0 ~ 1 is greaterthan 1 ~ 1 is ge 1 ~ 1 is lt 2 ~ 1 is lessthan 1 ~ 1 is le 1 ~ [1, 2, 3]|select('==', 2)|list ~ [1, 2]|select('!=', 2)|list ~ [1, 2]|select('>', 1)|list ~ [1, 2]|select('>=', 2)|list ~ [1, 2]|select('<', 2)|list ~ [1, 2]|select('<=', 1)|list
1 is lt 'a'
'hELLO'.capitalize() ~ 'ẞß'.casefold() ~ 'ab'.center(7, '*') ~ 'abc'.center(6, '-') ~ 'a'.center(0)
'aXbXc'.count('X') ~ 'aaaa'.count('aa') ~ 'abc'.count('') ~ 'äXäX'.count('X', 2) ~ 'abc'.count('c', 0, 2)
'abc'.endswith('bc') ~ 'abc'.endswith(('x', 'c')) ~ 'abc'.endswith('') ~ 'abc'.endswith('b', 0, 2) ~ 'abc'.endswith('', 5)
'abc'.endswith(5)
'a\tbc\td'.expandtabs() ~ 'a\tb'.expandtabs(3) ~ 'a\tb'.expandtabs(tabsize=0)
'äbcb'.find('b') ~ 'abc'.find('x') ~ 'abcb'.find('b', 2) ~ 'abc'.find('') ~ 'äbcb'.rfind('b') ~ 'abcb'.rfind('b', 0, 3) ~ 'abc'.rfind('x') ~ 'abc'.find('', 4)
'{} {0} {a} {x[0]} {x[k].y!r:>5}|'.replace('{0} ', '').format(1, a='b', x={0: 'zero', '0': 'str', 'k': d})
'{0} {1} {0}'.format('a', 'b') ~ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+d}|{:,}|{:x}|{:#x}|{:b}|{:.2f}|{:.1%}|{:e}|{:5.1f}|{:.3}|{:s}|{!r}|{{}}'.format('a', 'b', 'c', 'd', 42, 7, 1234567, 255, 255, 5, 3.14159, 0.256, 1234.5, 2.25, 'abcdef', 'x', 'q')
'{:>4}'.format(true) ~ '{}'.format(none) ~ '{}'.format([1]) ~ '{:d}'.format(true) ~ '{:.2f}'.format(3) ~ '{:,.1f}'.format(12345.67) ~ '{:<4}|'.format(5) ~ '{:=+5}'.format(3)
'{a} {b}'.format_map({'a': 1, 'b': 2})
'{}'.format()
'{x}'.format(y=1)
'{:d}'.format('a')
'{'.format(1)
'abc'.index('c') ~ 'abcb'.rindex('b')
'abc'.index('x')
'abc'.rindex('x')
'a1'.isalnum() ~ 'a 1'.isalnum() ~ ''.isalnum() ~ 'aé'.isalpha() ~ 'a1'.isalpha() ~ 'aé'.isascii() ~ ''.isascii() ~ '12'.isdecimal() ~ '1a'.isdigit() ~ '12'.isdigit() ~ 'a_1'.isidentifier() ~ '1a'.isidentifier() ~ 'ab'.islower() ~ 'aB'.islower() ~ '½'.isnumeric() ~ 'a\n'.isprintable() ~ 'aä'.isprintable() ~ ' \n'.isspace() ~ ''.isspace() ~ 'Ab Cd'.istitle() ~ 'ab'.istitle() ~ 'AB'.isupper() ~ '1'.isupper()
', '.join(['a', 'b']) ~ ''.join([]) ~ '-'.join('abc') ~ ','.join(d)
', '.join([1])
'ab'.ljust(4) ~ '|' ~ 'ab'.rjust(4, '.') ~ 'ab'.ljust(1)
'ABC'.lower() ~ 'abc'.upper() ~ ' a '.strip() ~ 'xxaxx'.strip('x') ~ ' a '.lstrip() ~ '|' ~ ' a '.rstrip() ~ '|' ~ 'abcab'.lstrip('ab') ~ 'abcab'.rstrip('ab') ~ ' a'.strip(none)
'a=b=c'.partition('=') ~ 'abc'.partition('=') ~ 'a=b=c'.rpartition('=') ~ 'abc'.rpartition('=')
'a'.partition('')
'abc'.removeprefix('ab') ~ 'abc'.removeprefix('x') ~ 'abc'.removesuffix('bc') ~ 'abc'.removesuffix('')
'aaa'.replace('a', 'b') ~ 'aaa'.replace('a', 'b', 1) ~ 'ab'.replace('', '-')
'a'.replace(1, 2)
'a,b,c'.split(',') ~ 'a,b,c'.split(',', 1) ~ ' a  b '.split() ~ 'a b c'.split(none, 1) ~ ''.split() ~ ''.split(',') ~ 'a b  c '.split(maxsplit=1) ~ 'a,b,c'.rsplit(',', 1) ~ ' a  b c '.rsplit(none, 1) ~ 'a b'.rsplit() ~ 'axxbxxc'.rsplit('xx') ~ 'a<b>c'.split(sep='<')
'a'.split('')
'a\nb\r\nc\n'.splitlines() ~ 'a\n\nb'.splitlines(true) ~ ''.splitlines() ~ 'a\u2028b'.splitlines(keepends=true)
'abc'.startswith('ab') ~ 'abc'.startswith(('x', 'a')) ~ 'abc'.startswith('b', 1) ~ 'abc'.startswith('')
'aBc'.swapcase() ~ "they're bill's ßx".title() ~ 'x1y'.title() ~ '42'.zfill(5) ~ '-42'.zfill(5) ~ '+1'.zfill(1)
[1, 2, 1].count(1) ~ [1, 2].index(2) ~ (1, 2, 1).count(1) ~ (1, 2).index(2) ~ [1, 2].copy() ~ range(5).count(3) ~ range(5).index(3) ~ [1, 2, 1].index(1, 1)
[1].index(5)
d.copy() == d ~ d.get('city') ~ d.get('x') ~ d.get('x', 5) ~ {}.fromkeys('ab', 1) ~ {}.fromkeys([1])
d.get([])
d.items() ~ d.keys() ~ d.values() ~ d.items()|list ~ d.keys()|list
l.append(1)
d.pop('city')
d.update(a=1)
d.pop ~ l.append ~ (d.update is defined)
dict(a=1, b=2) ~ dict({'a': 1}, b=3) ~ dict([('x', 1), ['y', 2]]) ~ dict()
dict([1])
namespace(a=1).a ~ namespace({'b': 2}).b ~ namespace() ~ namespace(a=1).nothing ~ namespace(a=1)['a']
namespace(_a=1)
range(3) ~ range(1, 7, 2)|list ~ range(5, 0, -2)|list ~ range(0)|list ~ range(10)[3] ~ range(10)[-1] ~ range(3, 1)|length
range(100001)
range()
range(1, 2, 0)
range('a')
raise_exception('no')
strftime_now('%Y-%m-%d %d %b %Y') ~ strftime_now('')
1 + 2 * 3 - 4 / 2 ~ 7 // 2 ~ -7 // 2 ~ 7 % 3 ~ -7 % 3 ~ 7 % -3 ~ 2 ** 10 ~ 2 ** -1 ~ -2 ** 2 ~ 2 ** 3 ** 2 ~ 7.5 // 2 ~ -7.5 % 2 ~ 1 / 3
1 / 0
1 % 0
1.0 // 0
'a' + 1
1 + none
missing + 1
'a' + missing
'ab' * 3 ~ 3 * 'ab' ~ [1] * 2 ~ 'a' * -1 ~ (1,) * 2 ~ [1] + [2] ~ (1,) + (2,) ~ true + 1 ~ 1.5 + true
[1] + (2,)
1.0 ~ ' ' ~ 1e16 ~ ' ' ~ 1e15 ~ ' ' ~ 123456789012345680.0 ~ ' ' ~ 1e-5 ~ ' ' ~ 0.0001 ~ ' ' ~ 1.5e300 ~ ' ' ~ 0.1 + 0.2 ~ ' ' ~ 100.0 ~ ' ' ~ -0.0 ~ ' ' ~ 5e-324 ~ ' ' ~ 1e22 ~ ' ' ~ 12345.678 ~ ' ' ~ 1.7976931348623157e308
[1, 'a', "it's", 'say "x"', 'both \' and "', none, true, 1.5, [], {}, (), (1,), 'ä\n\t\\\x00\u200b\xad\U000e0001', missing]
d ~ {'a': {'b': [1]}} ~ {1: 2, none: 3}
1 == 1.0 ~ 1 == true ~ '1' == 1 ~ none == missing ~ missing == missing2 ~ [1] == [1.0] ~ (1,) == [1] ~ {'a': 1} == {'a': 1.0} ~ 'a' != 'b'
1 < 2 < 3 ~ 1 < 2 > 3 ~ 'a' < 'b' ~ [1, 2] < [1, 3] ~ (1,) < (1, 2) ~ 1 <= 1.0 ~ not 1 > 2 ~ 'é' > 'z'
1 < 'a'
none < 1
missing < 1
1 in [1] ~ 'a' in 'abc' ~ 'x' not in 'abc' ~ 'city' in d ~ 1 in (1,) ~ 'x' in missing ~ '' in 'a' ~ 2 in range(3) ~ ('city', 'x') in d.items() ~ none in [none]
1 in 'a'
'a' in 5
not '' ~ not 'a' ~ (0 or 'x') ~ (1 and 'y') ~ ('' and 1) ~ (none or false) ~ (missing or 5) ~ not missing
'a' if true else 'b' ~ ('a' if false) ~ ('a' if 0 else 'b' if 1 else 'c')
l[0] ~ l[-1] ~ l[10] ~ l[1:] ~ l[:-1] ~ l[::-1] ~ l[::2] ~ 'äbcd'[1:3] ~ 'abc'[::-1] ~ 'äbc'[0] ~ 'abc'[-1] ~ (1, 2, 3)[1:] ~ l[5:] ~ l[-2:10] ~ 'abc'[5:] ~ range(10)[2:4]|list ~ l[none:2] ~ l[true]
l['x'] ~ l.x ~ 'abc'.x ~ 5 .x ~ none.x ~ d['x'] ~ d.x ~ d[1] ~ l['append'] is defined
nothing[1:]
missing.x
missing['x']
missing()
d.x.y
none()
l[::0]
n[:1]
l['a':]
d['city'] ~ d.city ~ d['items'] is callable ~ {'items': 1}['items'] ~ ({'items': 1}.items is callable) ~ {'a': {'b': 1}}.a.b ~ l.0 ~ {1: 'x'}[1] ~ {1: 'x'}[true] ~ {1.0: 'y'}[1]
'a' 'b' "c" ~ 'x\
y' ~ '\x41\u00e9\101\q\'' ~ "\n" ~ 0x1f ~ 0b11 ~ 0o17 ~ 1_000 ~ 1e3 ~ 1.5e-3 ~ 1_0.5
true ~ True ~ false ~ none ~ None ~ (1) ~ (1,) ~ () ~ [1, 2,] ~ {'a': 1,}
-5|abs ~ -(5|abs) ~ - 5 ~ +5 ~ --5 ~ not not 1 ~ -true
-'a'
-missing
range(1, *[5, 2])|list ~ dict(**{'a': 1}) ~ 'x'.center(*[5], **{})
'a'.center(5, 'ab')
'abc'.upper(1)
'abc'.nothing()
loop
(l|map('string')) and 'yes' ~ ([]|map('string')) and 'yes'
messages|map(attribute='role')|list|unique|join(',') ~ messages[-1].content ~ messages[-1]['role'] ~ messages|length
"%s" % missing ~ missing ~ [missing] ~ missing|upper ~ 'x' ~ missing
d.items()|list|first ~ d.values()|sum
""".strip("\n").replace("\\\ny", "\x00").split("\n")
EXPRESSIONS = [line.replace("\x00", "\\\ny") for line in EXPRESSIONS]

STATEMENTS = [
    "{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}",
    "{% for x in [1, 2, 3] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('a', 'b') }}{{ loop.changed(x // 2) }}{% endfor %}",
    "{% for x in [3, 1, 2, 5] if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }}{{ loop.length }}{% else %}none{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for x in [1, 2, 3, 4] if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ x }}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for x in [1, 2, 3, 4] if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for x in [1, 2, 3, 4] if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ x }}{{ loop.length }}{% endfor %}",
    "{% for x in [] %}a{% else %}b{% endfor %}{% for x in missing %}a{% else %}c{% endfor %}{% for x in 'äb' %}{{ x }},{% endfor %}{% for k in d %}{{ k }},{% endfor %}",
    "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for k, v in d|items %}{{ k }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [(1,)] %}{% endfor %}",
    "{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [1, 2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for t in tree recursive %}{{ loop.depth }}{{ t.n }}{% if t.c %}({{ loop(t.c) }}){% endif %}{% endfor %}", "{% for t in [1] %}{{ loop([]) }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% if true %}{% set x = 1 %}{% endif %}{{ x }}{% if x == 1 %}a{% elif x == 2 %}b{% else %}c{% endif %}{% if missing %}{% elif 1 %}d{% endif %}",
    "{% set x %}a{{ 1 }}b{% set y = 5 %}{% endset %}{{ x }}{{ y }}{% set z | upper | replace('A', 'c') %}a{% endset %}{{ z }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}{% set t = 1, %}{{ t }}",
    "{% set ns = namespace(a=1) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{% set ns.b %}x{% endset %}{{ ns.b }}{{ ns }}",
    "{% set d.x = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ f(1) }}{{ f(1, 5) }}{{ f(1, c=7) }}{{ f() }}{{ f(b=3) }}{% set r = f(9) %}{{ r|length }}",
    "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(x=1) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, a=3) }}{% macro g(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ g(1, 2) }}",
    "{% macro f(x) %}[{{ caller(x) }}{{ caller('z') }}]{% endmacro %}{% call(y) f(5) %}{{ y }}!{% endcall %}{% call f(1) %}q{% endcall %}",
    "{% macro f() %}[{{ caller() }}]{% endmacro %}{% for i in [1, 2] %}{% call f() %}{{ i }}{% endcall %}{% endfor %}{{ f() }}", "{% macro f() %}{% endmacro %}{% call f() %}{% endcall %}",
    "{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% set x = 1 %}{{ f() }}{% for i in [1] %}{% set x = 2 %}{{ f() }}{% endfor %}",
    "{% for i in [1, 2] %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}{% macro fib(n) %}{{ n if n < 2 else fib(n - 1)|int + fib(n - 2)|int }}{% endmacro %}{{ fib(10) }}",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}{% filter replace('a', 'b')|upper %}aac{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}{% with %}{% set q = 1 %}{% endwith %}{{ q }}{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}",
    "{% generation %}a{{ 1 }}{% endgeneration %}{% block x %}in{% endblock %}{% block y scoped %}{{ 1 }}{% endblock y %}{% print 1, 'a' %}",
    "a\n{% if 1 %}\nb\n{% endif %}\nc\n", "  {% if 1 %}\n  x\n  {% endif %}\n", "a {%- if 1 -%} b {%- endif -%} c", "a {%+ if 1 %} b {%- endif +%}\n c", "x  {{- 1 -}}  y  {{ 2 }}\nz\n",
    "{# c #}\na\n  {# d #}\nb {#- e -#} c", "{% raw %}{{ x }}{% y %}{% endraw %}z{%- raw -%}  {{  {%- endraw -%}  w", "   {% raw %}\n a\n   {% endraw %}\nb", "{{ '{{' }}{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}",
    "a\r\nb\rc\n\n", "\n", "", "{%if 1%}{{1}}{%endif%}", "{% if 1 -%}\n\n a{% endif %}", "{%- set x = 1 %}\n{{ x }}\n   {%- set y = 2 %}\n  b", "\t{% set z = 1 %}\t\n", "{{ 1 }}\n{% if 1 %}\n{{ 2 }}\n{% endif %}\n",
    "{% if x is nothing %}{% endif %}{% if false %}{{ 1|nothing }}{% endif %}ok", "{% if true %}{{ 1|nothing }}{% endif %}", "{{ 1|nothing if false else 2 }}", "{% if true %}{% for i in [1] %}{{ 1|nothing }}{% endfor %}{% endif %}",
    "{{ 1 if }}", "{% for %}", "{% endif %}", "{% if 1 %}", "{{ }}", "{{ 1 2 }}", "{{ (1 }}", "{{ 1) }}", "{{ [1, 2 }}", "{{ a. }}", "{{ a.5.6 }}", "{{ f(a=1, 2) }}", "{{ 'a }}", "{% set x %}", "{% macro %}",
    "{% macro f(a=1, b) %}{% endmacro %}", "{% for x in [1] %}{% endif %}", "{% if 1 %}{% else %}{% else %}{% endif %}", "{{ x is is }}", "{{ 1 is odd is even }}", "{% call 5 %}{% endcall %}", "{{ a ! b }}", "{% set true = 1 %}", "{% set 'a' = 1 %}", "{% set a.b.c = 1 %}", "{% with a %}{% endwith %}",
    "{% for x in [1, 2] %}{% set loop2 = loop %}{% for y in 'ab' %}{{ loop2.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% set x = [1, 2, 3] %}{% for i in x|reverse %}{{ i }}{{ loop.length }}{{ loop.last }}{% endfor %}{% for i in x|map('string') %}{{ loop.length }}{{ i }}{% endfor %}",
    "{% set g = [1, 2]|map('string') %}{{ g|list }}{{ g|list }}{% set h = 'ab'|map('upper') %}{{ h|first }}{{ h|list }}",
    "{% if messages and messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}{% endif %}{{ (messages|selectattr('role', 'eq', 'user')|list)[0].content }}",
]
CASES = ["{{ " + line + " }}" for line in EXPRESSIONS] + STATEMENTS
