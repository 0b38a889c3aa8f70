// The viewer of a backtest, after what all pages share. docs/backtest.md defines the measures.

const report = read('report');
const charts = read('charts');
const policies = report.policies ?? [];
const closely = policies[charts.closely]; // the policy that is looked at closely; undefined without any
const manifest = policies.find(p => p.name === 'manifest');
const before = manifest === closely ? undefined : manifest; // what the policy is compared with
const isBaseline = p => p.name === 'manifest' || p.name === 'hindsight'; // every backtest has it, and nobody proposes it
const containers = closely?.containers ?? [];
const hours = report.window.seconds / 3600;

// Numbers.

// number is rounded to three digits that count, without an exponent.
function number(value) {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return 'unknown';
  if (size >= 100 || size === 0) return whole(value);
  return size < 0.0005 ? '<0.001' : String(+value.toFixed(Math.min(3, Math.max(0, 2 - Math.floor(Math.log10(size))))));
}

// whole is a number, rounded to a whole one where it is large.
const whole = value => Math.abs(value) < 100 && !Number.isInteger(value) ? number(value) : grouped(Math.round(value));

// share is a part in percent, exactShare with three digits however small it is.
function share(part) {
  const percent = 100 * part;
  if (percent > 0 && percent < 0.1) return '<0.1%';
  return (percent < 10 ? +percent.toFixed(1) : percent.toFixed(0)) + '%';
}
const exactShare = part => number(100 * part) + '%';

// against is how much more or less a number is than before.
function against(value, was) {
  if (!was) return 'none before';
  const change = value / was - 1;
  if (Math.abs(change) < 0.0005) return 'the same';
  return change < 0 ? '−' + share(-change) : '+' + share(change);
}

// cores and bytes are amounts in the unit that leaves one to four digits, as quantity.Short writes them.
const cores = value => value !== 0 && value < 0.9995 ? (1000 * value).toFixed(0) + 'm' : number(value);
function bytes(value) {
  const power = Math.max(0, ['Ki', 'Mi', 'Gi', 'Ti'].findLastIndex((_, i) => value >= 1024 ** (i + 1)) + 1);
  return number(value / 1024 ** power).replace(',', '') + ['', 'Ki', 'Mi', 'Gi', 'Ti'][power];
}

// What is requested is a mean over the history, in cores and in GiB, as in the table of a terminal.
const cpu = {key: 'cpu', title: 'CPU', unit: 'cores', text: cores, binary: false, of: m => hours && m.cpu.requestedCoreHours / hours, slack: m => m.cpu.slackShare};
const memory = {key: 'memory', title: 'Memory', unit: 'GiB', text: bytes, binary: true, of: m => hours && m.memory.requestedGiBHours / hours, slack: m => m.memory.slackShare};
const resources = [cpu, memory];

// long is a time in words, of days to the nearest hour.
const long = seconds => duration(seconds > 24 * 3600 ? 3600 * Math.round(seconds / 3600) : seconds);
const often = n => n === 0 ? 'never' : n === 1 ? 'once' : grouped(n) + ' times';
const changed = (change, as) => `${change.from === null ? 'none' : as(change.from)} → ${change.to === null ? 'none' : as(change.to)}`;

// aboutPolicy is what distinguishes a policy from others of its name.
const aboutPolicy = p => [
  ...Object.entries(p.params ?? {}).map(([key, value]) => `${key}=${value}`).filter(text => !p.name.includes(text)),
  p.enforces?.length && !p.name.includes('+' + p.enforces[0]) && 'enforces ' + p.enforces.join(', '),
  p.sameAs && `decides as ${p.sameAs} does`,
].filter(Boolean).join('; ');

// The headline says in a few sentences what came out.

function headline() {
  const {from, to, seconds} = report.window, prices = report.prices;
  return [
    h('h1', h('small', 'celvpa backtest'), ' What would this policy have done?'),
    closely && [h('div.verdict.info', {role: 'region', 'aria-label': 'Summary'}, h('p.text', summary())), tiles()],
    about([
      ['History', period(from, to), h('small', ' ' + long(seconds))],
      closely && ['Workloads', grouped(closely.fleet.workloads), ' ', h('small', 'with ' + counted(containers.length, 'container'))],
      closely && ['Details', 'of policy ', h('strong', closely.name)],
      prices && ['Prices', `${number(prices.coreHour)} a core-hour, ${number(prices.gibHour)} a GiB-hour`],
    ].filter(Boolean)),
  ];
}

// summary compares the policy with the requests as they are.
function summary() {
  const f = closely.fleet, was = before?.fleet, never = (closely.workloads ?? []).filter(w => w.neverUpdated).length;
  const than = of => was && [' ', h('strong', `(${against(of(f), of(was))})`)];
  return [was && 'Compared with the requests in the manifests, policy ', !was && 'Policy ', h('strong', closely.name),
    ` would have requested ${number(cpu.of(f))} cores`, than(cpu.of), ` and ${number(memory.of(f))} GiB of memory`, than(memory.of),
    was?.cost !== undefined && f.cost !== undefined && [`, at a cost of ${whole(f.cost)}`, than(f => f.cost)],
    f.evictions + f.resizes === 0 ? '. It would have changed no running pod.' : `. It would have evicted ${f.evictions ? counted(f.evictions, 'pod') : 'no pod'} and resized ${f.resizes ? grouped(f.resizes) : 'none'} in place.`,
    never > 0 && [' It would ', h('a', {href: '#worst'}, 'never have updated'), ` the pods of ${counted(never, 'workload')}.`],
    f.ooms + (was?.ooms ?? 0) === 0 ? ` No container would have been OOM-killed${was ? ', with this policy or with the manifests' : ''}.`
      : ` There would have been ${f.ooms ? counted(f.ooms, 'OOM kill') : 'no OOM kill'}${was ? `, and ${was.ooms ? grouped(was.ooms) : 'none'} with the manifests` : ''}.`,
    ` CPU usage would have exceeded the request ${share(f.cpu.overRequestShare)} of the time`, was && `, and ${share(was.cpu.overRequestShare)} with the manifests`, '.'];
}

// tiles are the numbers of the summary at a glance.
function tiles() {
  const f = closely.fleet, was = before?.fleet;
  const tile = (term, of, text, unit) => of(f) !== undefined && h('div', h('dt', term), h('dd',
    h('strong', was && of(was) ? against(of(f), of(was)) : text(of(f)) + unit), h('small', was && `${text(of(was))} → ${text(of(f))}${unit}`)));
  const plain = (term, of, text) => h('div', h('dt', term), h('dd', h('strong', text(of(f))), h('small', was ? `manifests: ${text(of(was))}` : '')));
  return h('dl.tiles',
    resources.map(r => tile(`${r.title} requested`, r.of, number, ' ' + r.unit)), tile('Cost', f => f.cost, whole, ''),
    plain('CPU over request', f => f.cpu.overRequestShare, share), plain('OOM kills', f => f.ooms, grouped), plain('Evictions', f => f.evictions, grouped), plain('Resizes in place', f => f.resizes, grouped));
}

// Policies side by side.

// named is the name of a policy, with places where it may break.
const named = p => p.name.split(/(?<=[[.+])/).flatMap((part, i) => [i > 0 && h('wbr'), part]);

// figures are the columns of the table of policies: a title, a number, what is beside it, and whether it is compared with the manifests.
const figures = [
  ['Cost', f => f.cost, whole],
  ['CPU cores', cpu.of, number],
  ['CPU slack', cpu.slack, share, f => 'worst ' + share(f.spread.cpuSlackShare.worst)],
  ['CPU over request', f => f.cpu.overRequestShare, share, f => f.cpu.overRequestShare > 0 && 'worst ' + share(f.spread.cpuOverRequestShare.worst)],
  ['Throttled core-hours', f => f.cpu.throttledCoreSeconds / 3600, number],
  ['Memory GiB', memory.of, number],
  ['Memory slack', memory.slack, share, f => 'worst ' + share(f.spread.memorySlackShare.worst)],
  ['OOM kills', f => f.ooms, grouped, f => f.ooms > 0 && 'in ' + counted(f.workloadsWithOOMs, 'workload')],
  ['Evictions', f => f.evictions, grouped, f => f.evictions > 0 && number(f.evictionsPerWorkloadDay) + '/day each'],
  ['Resizes', f => f.resizes, grouped, f => f.resizes > 0 && number(f.resizesPerWorkloadDay) + '/day each'],
  ['Adapts in', f => f.adaptSeconds.count ? f.adaptSeconds.p50 : undefined, long, f => f.adaptSeconds.count > 0 && '95%: ' + long(f.adaptSeconds.p95)],
];

// fleets has no column for what is 0 with each policy, but for OOM kills and evictions.
function fleets() {
  const kept = figures.filter(([title, of]) => /^(OOM|Evict)/.test(title) || policies.some(p => of(p.fleet) > 0));
  return [
    h('p', 'All workloads together; cores and GiB are what they request on average. ', h('span.label.none', 'unbeaten'),
      ' marks each policy that no other one beats: none is at least as good in footprint, OOM kills, evictions and CPU over request, and better in one of these.'),
    folds('policies', policies, shown, (part, from) => table('Policies, all workloads together', ['Policy', ...kept.map(([title]) => title)], part.map((p, i) => [
      head(h('span.nr', {id: 'policy-' + (from + i + 1)}, String(from + i + 1)), ' ', named(p), p.pareto && [' ', h('span.label.none', 'unbeaten')], aboutPolicy(p) && h('small', aboutPolicy(p))),
      ...kept.map(([, of, text, beside]) => {
        const value = of(p.fleet), was = !beside && manifest && manifest !== p && of(manifest.fleet);
        return cell('n', value === undefined ? '–' : text(value), h('small', beside ? beside(p.fleet) : was && against(value, was)));
      }),
    ])), true),
  ];
}

// What policies save against what that costs.

const deep = 260, above = 14, below = 12, plotted = 200; // pixels of a plot, above its largest value and below 0; most policies of one

function tradeoffs() {
  const requested = r => ({name: `${r.unit} requested`, of: p => r.of(p.fleet), text: number}), slack = r => ({name: 'slack', of: p => r.slack(p.fleet), text: exactShare});
  const time = (name, of) => ({name, of: p => of(p.fleet), text: exactShare});
  return [
    h('p', 'Each point is a policy, by its number in the table above, or several that are close together. Further left requests less, further down is safer. ' +
      'The line joins the policies that no other one beats in this plot. ', h('em', 'hindsight'), ' knows the future, so no policy can be as good.'),
    h('div.charts',
      tradeoff('CPU', requested(cpu), time('time over the CPU request', f => f.cpu.overRequestShare)),
      tradeoff('Memory', requested(memory), {name: 'OOM kills', of: p => p.fleet.ooms, text: whole, counts: true}),
      tradeoff('CPU slack', slack(cpu), {name: 'throttled core-hours', of: p => p.fleet.cpu.throttledCoreSeconds / 3600, text: number}),
      tradeoff('Memory slack', slack(memory), time('time over the memory request', f => f.memory.overRequestShare))),
  ];
}

// even are three to five round numbers above zero.
function even(top) {
  const power = 10 ** Math.floor(Math.log10(top)), step = power * ([0.1, 0.2, 0.5, 1, 2].find(part => top / (power * part) <= 5) ?? 1);
  return [1, 2, 3, 4, 5, 6].map(n => n * step).filter(value => value <= top);
}

// tradeoff draws one plot; none of a risk that is 0 with each policy. The table of policies has its numbers in text.
function tradeoff(title, across, down) {
  const spots = policies.slice(0, plotted).map((policy, i) => ({policy, i, x: across.of(policy), y: down.of(policy)}));
  const right = 1.08 * Math.max(...spots.map(p => p.x)), top = 1.08 * Math.max(...spots.map(p => p.y));
  if (!(right > 0 && top > 0)) return;
  const x = value => percent(value / right), y = value => +(deep - value / top * (deep - above)).toFixed(1), foot = deep + below;
  const text = (at, ...words) => s('text', at, words), levels = even(top).filter(t => !down.counts || Number.isInteger(t));
  return h('figure.chart', h('figcaption', title, ' ', h('small', `${down.name} against ${across.name}`)),
    h('div.time',
      s('svg.y', {width: 64, height: foot + 40, 'aria-hidden': 'true'}, [0, ...levels].map(t => text({x: 58, y: y(t) + 4, 'text-anchor': 'end'}, t ? down.text(t) : '0'))),
      s('svg.plot', {width: '100%', height: foot + 40}, [0, ...levels].map(t => s('line.grid', {x1: 0, x2: '100%', y1: y(t), y2: y(t)})),
        s('line.axis', {x1: 0, x2: '100%', y1: foot, y2: foot}),
        even(right).map(t => [s('line.axis', {x1: x(t), x2: x(t), y1: foot, y2: foot + 4}), text({x: x(t), y: foot + 17, 'text-anchor': 'middle'}, across.text(t))]),
        text({x: '100%', y: foot + 35, 'text-anchor': 'end'}, across.name + ' →'),
        front(spots).map(([a, b]) => [s('line.front', {x1: x(a.x), x2: x(b.x), y1: y(a.y), y2: y(a.y)}), s('line.front', {x1: x(b.x), x2: x(b.x), y1: y(a.y), y2: y(b.y)})]),
        near(spots.map(p => [p]), p => p.x / right, p => y(p.y)).map(group => spot(group, x, y, across, down)))));
}

// front are pairs of the policies of which none is lower and more to the left, from left to right.
function front(spots) {
  const out = [], list = spots.filter(p => p.policy.name !== 'hindsight').sort((a, b) => a.x - b.x || a.y - b.y);
  list.reduce((last, p) => {
    if (p.y >= last.y) return last;
    out.push([last, p]);
    return p;
  }, list[0]);
  return out;
}

const halfOf = group => Math.max(11, 5 + 4 * numbersOf(group).length); // pixels, of the width of a point

// near joins groups of points until none covers another. A group stands where its first point is.
function near(groups, x, y) {
  const width = (Math.min(1280, innerWidth) - 80) / (innerWidth > 860 ? 2 : 1) - 80; // pixels of a plot, or some less
  for (let i = 0; i < groups.length; i++) {
    const at = groups.findIndex((other, j) => j < i && Math.abs(x(other[0]) - x(groups[i][0])) * width < halfOf(other) + halfOf(groups[i]) && Math.abs(y(other[0]) - y(groups[i][0])) < 24);
    if (at >= 0) return near(groups.flatMap((group, j) => j === i ? [] : [j === at ? [...group, ...groups[i]] : group]), x, y);
  }
  return groups;
}

// spot is a point for policies that are close together. It leads to the first.
function spot(group, x, y, across, down) {
  const [first] = group, half = halfOf(group);
  const kind = group.some(p => p.policy === closely) ? 'main' : group.some(p => !isBaseline(p.policy) && p.policy.name !== 'upstream') ? 'candidate' : 'baseline';
  const said = group.map(p => `${p.i + 1} ${[p.policy.name, aboutPolicy(p.policy)].filter(Boolean).join(' ')}: ${across.text(p.x)} ${across.name}, ${down.text(p.y)} ${down.name}`);
  return s('a', {href: '#policy-' + (first.i + 1)}, s('title', said.join('; ')), s('svg.spot', {x: x(first.x), y: y(first.y)},
    s('rect.' + kind, {x: -half, y: -11, width: 2 * half, height: 22, rx: 11}), s('text.in', {'aria-hidden': 'true', x: 0, y: 4, 'text-anchor': 'middle'}, numbersOf(group))));
}

// numbersOf are those of policies, such as 3–5, 7, in up to 9 characters.
function numbersOf(group) {
  const list = group.map(p => p.i + 1).sort((a, b) => a - b);
  let text = '';
  for (let i = 0, last; i < list.length; i = last + 1) {
    for (last = i; list[last + 1] === list[last] + 1;) last++;
    const part = (i > 0 ? ', ' : '') + list[i] + (last > i ? (last === i + 1 ? ', ' : '–') + list[last] : '');
    if ((text + part).length > 9) return text + '…';
    text += part;
  }
  return text;
}

// The workloads that fare worst, and how they fare with the manifests.

const ranked = 10; // workloads that each list names
const unused = r => w => r.slack(w) * r.of(w), unusedText = r => w => `${number(unused(r)(w))} ${r.unit}, ${share(r.slack(w))}`;
const listings = [
  ['Most OOM kills', w => w.ooms, w => grouped(w.ooms)],
  ['Longest over the CPU request', w => w.cpu.overRequestShare, w => share(w.cpu.overRequestShare) + ' of the time'],
  ['Most unused CPU', unused(cpu), unusedText(cpu)],
  ['Most unused memory', unused(memory), unusedText(memory)],
  ['Most evictions', w => w.evictions, w => grouped(w.evictions)],
];
const same = (a, b) => a.namespace === b.namespace && a.kind === b.kind && a.workload === b.workload && a.container === b.container;

function worst() {
  const workloads = closely.workloads ?? [], never = workloads.filter(w => w.neverUpdated);
  const row = w => head(w.workload, h('small', `${w.namespace} ${w.kind}`));
  const list = (title, columns, all, cells) => all.length > 0 && h('div', h('h3', title), table(title, columns, all.slice(0, ranked).map(cells)),
    all.length > ranked && h('p.more', `and ${grouped(all.length - ranked)} others`));
  return h('div.lists', listings.map(([title, of, text]) => list(title, ['Workload', 'Policy ' + closely.name, 'Manifests'], workloads.filter(w => of(w) > 0).sort((a, b) => of(b) - of(a)), w => {
    const was = (before?.workloads ?? []).find(b => same(b, w));
    return [row(w), text(w), was ? text(was) : '–'];
  })), list('Never evicted or resized', ['Workload', 'Why'], never, w => [row(w), [w.neverUpdated.reason, h('small', h('code', w.neverUpdated.rule))]]));
}

// Containers over time, those that fare worst first, a fold each.

const unfolded = 2, compared = 12, closer = 5, listed = 60; // containers that are open; policies that are compared; containers with charts of other policies; steps
const seriesOf = new Map(charts.series.map(one => [one.policy + ' ' + one.container, one]));

// unpacked are the lines of a resource with a value for each step.
const unpacked = lines => Object.fromEntries(Object.entries(lines).map(([key, runs]) => [key, runs.flatMap((value, i) => i % 2 ? [] : Array(runs[i + 1]).fill(value))]));

const containerList = () => [
  h('p', `With policy ${closely.name}. The containers with the most OOM kills come first, then the longest over their requests, then the most unused CPU.`,
    !charts.series.length && ' There are no charts, because the report has no series.'),
  folds('containers', charts.order, shown, (part, from) => part.map((index, i) => container(index, from + i))),
];

function container(index, position) {
  const c = containers[index], series = p => seriesOf.get(policies.indexOf(p) + ' ' + index);
  const others = policies.filter(p => p !== closely && position < closer && series(p) && p.containers[index] && same(p.containers[index], c));
  return h('details.container', position < unfolded && {open: ''},
    h('summary', h('h3', c.container, ' ', h('span.of', `of ${c.kind} ${c.namespace}/${c.workload}`)), ' ', h('span.brief', 'CPU slack ', h('strong', share(c.cpu.slackShare))), ' ',
      h('span.brief', 'memory slack ', h('strong', share(c.memory.slackShare))), c.ooms > 0 && [' ', h('span.label.bad', counted(c.ooms, 'OOM kill'))]),
    h('article',
      series(closely) ? drawing(closely, c, series(closely)) : charts.series.length > 0 &&
        h('p.more', 'No charts, to keep the page small. ', h('code', '-o json --series'), ' has their numbers.'),
      comparison(c, index),
      others.length > 0 && fold(['Charts with other policies ', h('span.of', `container ${c.container} of ${c.namespace}/${c.workload}`)],
        others.map(p => fold(['Policy ', named(p), ' ', h('span.of', aboutPolicy(p))], drawing(p, p.containers[index], series(p)))))));
}

// comparison is how the container fares with each policy.
function comparison(c, index) {
  const name = `container ${c.container} of ${c.namespace}/${c.workload}`;
  const list = policies.map((p, i) => [p, i, p.containers?.[index]]).filter(([p, i, one]) => one && same(one, c) && (i < compared || p === closely));
  return fold('All policies for ' + name, table('All policies for ' + name, [
    'Policy', 'CPU cores', 'CPU slack', 'CPU over request', 'Throttled core-hours', 'Memory GiB', 'Memory slack', 'OOM kills', 'Evictions', 'Resizes',
  ], list.map(([p, i, one]) => [
      head(h('span.nr', String(i + 1)), ' ', named(p), h('small', aboutPolicy(p))),
      ...[number(cpu.of(one)), share(one.cpu.slackShare), share(one.cpu.overRequestShare), number(one.cpu.throttledCoreSeconds / 3600),
        number(memory.of(one)), share(one.memory.slackShare), grouped(one.ooms), grouped(one.evictions), grouped(one.resizes)].map(text => cell('n', text)),
    ])));
}

const drawing = (p, c, series) => [h('div.charts', resources.map(r => chart(p, c, series, r))), happened(p, c, series)];

const drawnMarks = 80; // under a chart; the list of steps has others, too
const most = line => Math.max(0, ...line);

// chart draws usage against request, limit, target and bounds, with what happened under it.
function chart(p, c, series, r) {
  const lines = unpacked(series[r.key]), step = 1000 * series.stepSeconds, from = Date.parse(report.window.from), to = from + step * series.steps;
  const inner = Math.max(most(lines.usage), most(lines.usageMax), most(lines.request), most(lines.target));
  const top = Math.max(inner, ...[...lines.limit, ...lines.upper].filter(value => value <= 2.5 * inner)); // a far limit or a wide bound would flatten all else
  if (top === 0) return;
  const points = (...of) => [...of[0].map((_, i) => [from + i * step, ...of.map(line => line[i])]), [to, ...of.map(line => line.at(-1) ?? null)]];
  const marks = (series.events ?? []).filter(e => shapes.has(e.type) && concerns(e, r) && Date.parse(e.at) >= from && Date.parse(e.at) <= to);
  return timeChart({
    title: r.title, detail: `policy ${p.name}, ${period(from, to)}`, label: described(p, c, lines, r), from, to, top: 1.05 * top, binary: r.binary, text: point => r.text(point[1]),
    areas: [{kind: 'band', name: 'bounds', points: points(lines.lower, lines.upper)}, {kind: 'area', points: points(lines.usage.map(() => 0), lines.usage)}],
    curves: [['peak', 'largest pod usage', lines.usageMax], ['mean', 'mean usage', lines.usage], ['limit', 'limit', lines.limit], ['target', 'target', lines.target], ['request', 'request', lines.request]]
      .map(([kind, name, line]) => ({kind, name, points: points(line)})),
    marks: marks.slice(-drawnMarks).map(e => ({at: Date.parse(e.at), title: `${date(Date.parse(e.at))} ${clock(e.at).slice(11, 16)} ${eventNames.get(e.type)}`, shape: shapes.get(e.type)})),
    legend: [...shapes.keys()].map(type => {
      const n = marks.filter(e => e.type === type).length;
      return n > 0 && h('li', s('svg', {width: 14, height: 12, viewBox: '-7 -6 14 12'}, shapes.get(type)()), ` ${eventNames.get(type)}, ${often(n)}`);
    }).concat(marks.length > drawnMarks && h('li', `the last ${drawnMarks} of these`)),
  });
}

// shapes are how events are drawn, around 0,0: nothing hangs on a colour.
const shapes = new Map([
  ['Evicted', () => s('path.evicted', {d: 'M-5 -5H5L0 5Z'})],
  ['Resized', () => s('path.resized', {d: 'M0 -6L5 0L0 6L-5 0Z'})],
  ['OOM', () => s('path.oom', {d: 'M-5 -5L5 5M5 -5L-5 5'})],
]);
const eventNames = new Map([['Evicted', 'pod evicted'], ['Resized', 'pod resized'], ['OOM', 'OOM kill']]);

// concerns says whether an event has to do with a resource: OOM kills with memory, others with what they change, or
// with both if they change neither.
const concerns = (e, r) => e.type === 'OOM' ? r.binary : e[r.key] || !e.cpu && !e.memory;

// described is the chart in words.
function described(p, c, lines, r) {
  const ends = (what, line) => {
    const values = line.filter(value => value !== null);
    return values.length ? `, ${what} from ${r.text(values[0])} to ${r.text(values.at(-1))}` : '';
  };
  return `${r.title} of container ${c.container} with policy ${p.name}: usage up to ${r.text(most(lines.usageMax))}${ends('request', lines.request)}${ends('limit', lines.limit)}${ends('target', lines.target)}; ` +
    `${counted(c.evictions, 'eviction')}, ${counted(c.resizes, 'resize')}, ${counted(c.ooms, 'OOM kill')}`;
}

// happened is what happened to a container and by which rules, oldest first.
function happened(p, c, series) {
  const list = [
    ...(series.causes ?? []).map(one => ({at: one.at, what: 'new target', detail: both(one), rules: one.rules ?? []})),
    ...(series.events ?? []).filter(e => e.type !== 'Started' && e.type !== 'Ended').map(e => ({
      at: e.at, what: eventNames.get(e.type) ?? e.type, rules: e.rule ? [e.rule] : [], reason: e.reason,
      detail: [e.type === 'OOM' && e.memory ? 'memory limit and usage ' + changed(e.memory, bytes) : both(e), e.pod && 'pod ' + e.pod].filter(Boolean).join('; '),
    })),
  ].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  if (!list.length) return h('p.none', 'No recommendation changed, and no pod was evicted, resized or OOM-killed.');
  const name = `policy ${p.name}, container ${c.container} of ${c.namespace}/${c.workload}`;
  const cut = (series.eventsCut ?? 0) + (series.causesCut ?? 0) + Math.max(0, list.length - listed);
  return fold([`${counted(list.length, 'step')}, with the rules that decided `, h('span.of', name)],
    table('Steps: ' + name, ['Time', 'What', 'From and to', 'Rules'], list.slice(0, listed).map(one => [
      cell('when', time(one.at)), cell('word', one.what), one.detail, [one.rules.map((rule, i) => [i > 0 && ', ', h('code', rule)]), one.reason && h('small', one.reason)],
    ])), cut > 0 && h('p.more', 'and ' + counted(cut, 'later step')));
}

const both = change => [change.cpu && 'CPU ' + changed(change.cpu, cores), change.memory && 'memory ' + changed(change.memory, bytes)].filter(Boolean).join(', ');

// What is a model, and how the measures are defined.

const words = [
  ['Cores and GiB', 'What containers request, on average over the history.'],
  ['Slack', 'The share of what is requested that is not used, while usage is below the request.'],
  ['Over request', 'The share of the time in which usage is above the request. On a full node a container gets no more than its request.'],
  ['Throttled', 'CPU above the limit. A container without a limit is not throttled.'],
  ['OOM kills', 'Samples of memory above the limit in force. The history was recorded under the old limits, so growth beyond those is not in it.'],
  ['Adapts in', 'How long usage stays above a request until the request is raised to it.'],
  ['manifest', 'The requests in the manifests, unchanged.'],
  ['hindsight', 'The lowest constant request that usage never exceeds. It knows the future, so no policy can be as good.'],
  ['upstream', "The shipped rules with the defaults of upstream's Vertical Pod Autoscaler."],
  ['shipped', 'The rules that celvpa ships, with the flags and the RuleOverlays of this run.'],
];
const modelled = () => [report.modelled?.length > 0 && h('ul', report.modelled.map(text => h('li', text))),
  h('h3', 'Words'), h('dl.words', words.map(([word, text]) => h('div', h('dt', word), h('dd', text))))];

show(headline(), [
  policies.length > 0 && {id: 'policies', title: 'Policies', count: policies.length, content: fleets},
  policies.length > 1 && {id: 'tradeoff', title: 'Savings and risks', content: tradeoffs},
  containers.length > 0 && {id: 'worst', title: 'Worst workloads', content: worst},
  containers.length > 0 && {id: 'containers', title: 'Containers over time', count: containers.length, content: containerList},
  {id: 'modelled', title: 'What is modelled', content: modelled},
], ['Written by ', h('code', 'celvpa backtest -o html'), '. The page makes no requests. Its JSON has all digits, as ', h('code', '-o json'), ' prints them.']);
