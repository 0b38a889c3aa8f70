'use strict';
// What the viewers of all pages share.

const read = id => JSON.parse(document.getElementById(id).textContent);

// Elements. All texts go through visible and become text nodes or attributes.

const longest = 2000; // characters of one text of the report

// visible is text, bounded, and with the code points in place of characters that a reader does not see and that
// change how the text around them looks.
function visible(value) {
  let text = String(value);
  if (text.length > longest) {
    const all = [...text];
    if (all.length > longest) text = all.slice(0, longest).join('') + `… (${all.length - longest} more characters)`;
  }
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, c => '\n\t\r'.includes(c) ? c : `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}]`);
}

// fill adds parts to an element: children, lists of them, objects with attributes, and what is skipped: undefined,
// false and the empty text.
function fill(e, ...parts) {
  for (const part of parts.flat(Infinity)) {
    if (part instanceof Node) e.append(part);
    else if (part?.constructor === Object) for (const [key, value] of Object.entries(part)) e.setAttribute(key, key === 'd' ? value : visible(value));
    else if (part) e.append(visible(part));
  }
  return e;
}

// make makes an element of a name with classes, such as p.more.
function make(namespace, tag, parts) {
  const [name, ...classes] = tag.split('.');
  return fill(document.createElementNS(namespace, name), classes.length > 0 && {class: classes.join(' ')}, parts);
}

const h = (tag, ...parts) => make('http://www.w3.org/1999/xhtml', tag, parts);
const s = (tag, ...parts) => make('http://www.w3.org/2000/svg', tag, parts);

// Words.

const grouped = n => String(n).replace('-', '−').replace(/\B(?=(\d{3})+$)/g, ',');
const counted = (n, noun) => `${grouped(n)} ${noun}${n === 1 ? '' : 's'}`;

// clock and time write a time of the report for people, and for programs, too.
const clock = t => new Date(t).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
const known = t => t && !t.startsWith('0001-01-01');
const time = t => known(t) ? h('time', {datetime: new Date(t).toISOString().slice(0, 19) + 'Z'}, clock(t)) : 'an unknown time';
const period = (from, to) => `${clock(from).slice(0, 16)} to ${clock(to).slice(0, 16)} UTC`;

// duration is a time in words as kubectl writes ages.
function duration(seconds) {
  const total = Math.trunc(seconds), minutes = Math.trunc(total / 60), hours = Math.trunc(minutes / 60), days = Math.trunc(hours / 24);
  const both = (n, unit, rest, small) => n + unit + (rest ? rest + small : '');
  if (total < 120) return total + 's';
  if (minutes < 10) return both(minutes, 'm', total % 60, 's');
  if (minutes < 180) return minutes + 'm';
  if (hours < 8) return both(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return hours + 'h';
  if (hours < 192) return both(days, 'd', hours % 24, 'h');
  if (days < 730) return days + 'd';
  return both(Math.trunc(days / 365), 'y', days < 2920 ? days % 365 : 0, 'd');
}

// Lists.

const shown = 25; // rows of a list that are open, as a rule
const folded = 100; // most rows in one fold

const fold = (summary, ...parts) => h('details.fold', h('summary', summary), parts);

// folds are a list of rows, the first ones open and the others in folds. What those hold is built once they open,
// unless others link to it.
function folds(what, list, first, build, linked) {
  const out = [build(list.slice(0, first), 0)];
  for (let from = first; from < list.length; from += folded) {
    const rows = list.slice(from, from + folded);
    const e = fold(`${what}, ${grouped(from + 1)} to ${grouped(from + rows.length)} of ${grouped(list.length)}`, linked && build(rows, from));
    if (!linked) e.addEventListener('toggle', () => fill(e, build(rows, from)), {once: true});
    out.push(e);
  }
  return out;
}

const cell = (kind, ...parts) => h(kind ? 'td.' + kind : 'td', parts);
const head = (...parts) => h('th', {scope: 'row'}, parts);

// table is one that scrolls by itself where it is wider than the page. Each cell says which column it is in, for
// pages too narrow for columns.
function table(caption, columns, rows) {
  const body = rows.map(cells => h('tr', cells.map((one, i) => {
    const e = one instanceof Node && /^t[dh]$/.test(one.localName) ? one : cell('', one);
    if (e.localName === 'td') e.setAttribute('data-column', visible(columns[i]));
    return e;
  })));
  return h('div.scroll', {role: 'group', 'aria-label': caption, tabindex: 0},
    h('table', h('thead', h('tr', columns.map(c => h('th', {scope: 'col'}, c)))), h('tbody', body)));
}

// about is a list of terms, without those that have no text.
const about = rows => h('dl.about', rows.filter(row => row[1]).map(([term, ...text]) => h('div', h('dt', term), h('dd', text))));

// show puts a page together: a headline, the list of contents, the sections that are there, and a footer.
function show(headline, sections, footer) {
  sections = sections.filter(Boolean);
  document.querySelector('main').replaceWith(
    ...sections.slice(0, 1).map(one => h('a.skip', {href: '#' + one.id}, 'Skip to ' + one.title)),
    h('header', headline),
    sections.length > 0 && h('nav', {'aria-label': 'Contents'}, h('ul', sections.map(one => h('li', h('a', {href: '#' + one.id}, one.title, ' ', one.count > 0 && h('span.count', grouped(one.count))))))),
    h('main', sections.map(one => h('section', {'aria-labelledby': one.id}, h('h2', {id: one.id}, one.title), one.content()))),
    h('footer', h('p', footer)));
}

// Scales.

const percent = position => +(100 * position).toFixed(2) + '%';

// ticks are up to 4 round amounts above zero of an axis that ends at top: where they stand, from 0 to 1, and
// their text. Amounts are bytes if binary, otherwise cores.
function ticks(top, binary) {
  const units = binary ? ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'] : ['m', '', 'k', 'M', 'G', 'T', 'P', 'E'], base = binary ? 1024 : 1000;
  if (!binary) top *= 1000;
  if (!(top >= 1 && top < 2 ** 62)) return [];
  let step = 1;
  for (let i = 1; top / step > 4; i++) step = binary ? 2 * step : [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3);
  const out = [];
  for (let n = step; n <= top; n += step) {
    let amount = n, unit = 0;
    while (amount % base === 0 && unit + 1 < units.length) [amount, unit] = [amount / base, unit + 1];
    out.push([n / top, amount + units[unit]]);
  }
  return out;
}

const minute = 60e3, hour = 60 * minute, day = 24 * hour;
const rounds = [...[1, 2, 5, 10, 15, 30].map(n => n * minute), ...[1, 2, 3, 6, 12].map(n => n * hour), ...[1, 2, 4, 7, 14, 30, 90, 365].map(n => n * day)];

// date is a day or, within one, a time of day.
function date(t, within) {
  const [, of, month] = new Date(t).toUTCString().split(' ');
  return within && t % day ? new Date(t).toISOString().slice(11, 16) : `${+of} ${month}`;
}

// times are up to 5 round times under the axis of a chart, y pixels from its top.
function times(from, to, y) {
  const step = rounds.find(d => to - from <= 4 * d) ?? rounds.at(-1), out = [];
  for (let t = (Math.floor(from / step) + 1) * step; t <= to && out.length < 5; t += step) {
    const x = (t - from) / (to - from);
    out.push(s('line.axis', {x1: percent(x), x2: percent(x), y1: high, y2: high + 4}),
      s('text', {x: percent(x), y, 'text-anchor': x < 0.1 ? 'start' : x > 0.9 ? 'end' : 'middle'}, step > 30 * day ? new Date(t).toISOString().slice(0, 7) : date(t, step < day)));
  }
  return out;
}

// Charts over time.

const high = 170; // pixels of one, above its axis

// steps is a path along points, which are times and values: each value holds until the next. Where y is null there
// is a gap.
function steps(points, x, y) {
  let d = '', at = null;
  for (const [t, value] of points) {
    const next = y(value);
    if (next === at) continue;
    if (at !== null) d += 'H' + x(t);
    if (next !== null) d += at === null ? `M${x(t)} ${next}` : 'V' + next;
    at = next;
  }
  return at === null ? d : d + 'H' + x(points.at(-1)[0]);
}

// area is a path around what is between two values from each point to the next.
function area(points, x, y) {
  let d = '';
  for (let i = 0; i + 1 < points.length; i++) {
    const [t, low, up] = points[i];
    while (i + 2 < points.length && points[i + 1][1] === low && points[i + 1][2] === up) i++;
    if (up !== null) d += `M${x(t)} ${y(up)}H${x(points[i + 1][0])}V${y(low ?? 0)}H${x(t)}Z`;
  }
  return d;
}

// timeChart draws curves, areas behind them and marks below, a row for each shape. A curve has a kind, a name and points; an area
// points with a lower and an upper value. Curves end where they are beyond the top; those that are quiet are not in the
// legend. What the curves have under the pointer is written below, as text says.
function timeChart({title, detail, label, from, to, top, binary, text, curves, areas, marks = [], legend = [], now, more}) {
  const x = t => Math.round(1000 * (t - from) / (to - from));
  const y = value => +(high * (1 - Math.min(1, Math.max(0, value / top)))).toFixed(1);
  const within = value => value === null || value > top ? null : y(value);
  const rows = [...new Set(marks.map(one => one.shape))], foot = high + 16 + 15 * rows.length, grid = ticks(top, binary), place = t => percent((t - from) / (to - from));
  const guide = s('line.now', {y1: 0, y2: high, visibility: 'hidden'}), readout = h('small.readout', {'aria-hidden': 'true'});
  const plot = s('svg', {width: '100%', height: foot + 5},
    grid.map(([at]) => s('line.grid', {x1: 0, x2: '100%', y1: (high * (1 - at)).toFixed(1), y2: (high * (1 - at)).toFixed(1)})),
    s('svg', {width: '100%', height: high, viewBox: `0 0 1000 ${high}`, preserveAspectRatio: 'none'},
      areas.map(one => s('path.' + one.kind, {d: area(one.points, x, y)})), curves.map(one => s('path.' + one.kind, {d: steps(one.points, x, within)}))),
    s('line.axis', {x1: 0, x2: '100%', y1: high, y2: high}),
    now > from && now <= to && s('line.now', {x1: place(now), x2: place(now), y1: 0, y2: high}),
    marks.map(one => s('svg.mark', {x: place(one.at), y: high + 11 + 15 * rows.indexOf(one.shape)}, s('title', one.title), one.shape())),
    times(from, to, foot), guide);
  plot.addEventListener('pointermove', event => {
    const box = plot.getBoundingClientRect(), t = from + (to - from) * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    for (const key of ['x1', 'x2']) guide.setAttribute(key, place(t));
    guide.setAttribute('visibility', 'visible');
    const values = curves.map(one => [one.name, one.points.findLast(p => p[0] <= t)]).filter(([, p]) => p && p[1] !== null);
    readout.textContent = visible([clock(t).slice(0, 16), ...values.map(([name, p]) => `${name} ${text(p)}`)].join(' · '));
  });
  plot.addEventListener('pointerleave', () => { guide.setAttribute('visibility', 'hidden'); readout.textContent = ''; });
  const drawn = kind => s('svg', {width: 24, height: 10}, s('line.' + kind, {x1: 0, x2: 24, y1: 5, y2: 5}));
  return h('figure.chart', h('figcaption', title, ' ', h('small', detail)),
    h('div.time', {role: 'img', 'aria-label': label},
      s('svg.y', {width: 56, height: foot + 5},
        grid.map(([at, name]) => s('text', {x: 50, y: (high * (1 - at) + 4).toFixed(1), 'text-anchor': 'end'}, name)),
        s('text', {x: 50, y: high + 4, 'text-anchor': 'end'}, '0')),
      plot),
    h('ul.legend', {'aria-hidden': 'true'},
      areas.filter(one => one.name && one.points.slice(0, -1).some(p => p[2] !== null))
        .map(one => h('li', s('svg', {width: 24, height: 10}, s('rect.' + one.kind, {width: 24, height: 10})), ' ' + one.name)),
      curves.filter(one => !one.quiet && one.points.some(p => within(p[1]) !== null)).map(one => h('li', drawn(one.kind), ' ' + one.name)), legend),
    readout, more);
}
