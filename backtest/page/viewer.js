// The viewer of a backtest, after what all pages share. docs/backtest.md defines the measures.

const report = read('report');
const charts = read('charts');
const policies = report.policies ?? [];
const closely = policies[charts.closely]; // the policy that is looked at closely; undefined without any
const manifest = policies.find(p => p.name === 'manifest');
const before = manifest === closely ? undefined : manifest; // what the policy is compared with
const isBaseline = p => p.name === 'manifest' || p.name === 'hindsight'; // every backtest has it, and nobody proposes it
const containers = closely?.containers ?? [];

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

const cores = value => value !== 0 && value < 0.9995 ? (1000 * value).toFixed(0) + 'm' : number(value);

// bytes is an amount of memory, in the unit that leaves one to four digits.
function bytes(value) {
  for (const [i, unit] of ['Ki', 'Mi', 'Gi', 'Ti'].entries()) {
    if (value < 1024 ** (i + 2) && value >= 1024 ** (i + 1) || i === 3 && value >= 1024 ** 4) return number(value / 1024 ** (i + 1)) + unit;
  }
  return value.toFixed(0);
}

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
      closely && ['Looked at closely', 'policy ', h('strong', closely.name)],
      prices && ['Prices', `${number(prices.coreHour)} a core-hour, ${number(prices.gibHour)} a GiB-hour`],
    ].filter(Boolean)),
  ];
}

// summary compares the policy with the requests as they are.
function summary() {
  const f = closely.fleet, was = before?.fleet, never = (closely.workloads ?? []).filter(w => w.neverUpdated).length;
  const than = of => was && [' ', h('strong', `(${against(of(f), of(was))})`)];
  return ['Policy ', h('strong', closely.name), ` would have requested ${whole(f.cpu.requestedCoreHours)} core-hours of CPU`, than(f => f.cpu.requestedCoreHours),
    ` and ${whole(f.memory.requestedGiBHours)} GiB-hours of memory`, than(f => f.memory.requestedGiBHours),
    was && [f.cost !== undefined && was.cost !== undefined && [`, at a cost of ${whole(f.cost)}`, than(f => f.cost)], ', compared with the requests in the manifests'],
    f.evictions + f.resizes === 0 ? '. It would have changed no running pod.' : `. It would have evicted ${counted(f.evictions, 'pod')} and resized ${grouped(f.resizes)} in place.`,
    never > 0 && [` Of ${counted(never, 'workload')} it would `, h('a', {href: '#worst'}, 'never have updated a pod'), '.'],
    f.ooms + (was?.ooms ?? 0) === 0 ? ` No container would have been OOM-killed${was ? ', with this policy or with the manifests' : ''}.`
      : ` There would have been ${counted(f.ooms, 'OOM kill')}${was ? `, and ${grouped(was.ooms)} with the manifests` : ''}.`,
    ` CPU use would have been above the request for ${share(f.cpu.overRequestShare)} of the time`, was && `, and for ${share(was.cpu.overRequestShare)} with the manifests`, '.'];
}

// tiles are the numbers of the summary at a glance.
function tiles() {
  const f = closely.fleet, was = before?.fleet;
  const tile = (term, of, text) => of(f) !== undefined && h('div', h('dt', term), h('dd',
    h('strong', was && of(was) ? against(of(f), of(was)) : text(of(f))), h('small', was ? `${text(of(was))} → ${text(of(f))}` : '')));
  const plain = (term, of, text) => h('div', h('dt', term), h('dd', h('strong', text(of(f))), h('small', was ? `manifests: ${text(of(was))}` : '')));
  return h('dl.tiles',
    tile('CPU core-hours', f => f.cpu.requestedCoreHours, whole), tile('Memory GiB-hours', f => f.memory.requestedGiBHours, whole), tile('Cost', f => f.cost, whole),
    plain('CPU over request', f => f.cpu.overRequestShare, share), plain('OOM kills', f => f.ooms, grouped), plain('Evictions', f => f.evictions, grouped), plain('Resizes in place', f => f.resizes, grouped));
}

// Policies side by side.

const nr = i => h('span.nr', {id: 'policy-' + (i + 1)}, String(i + 1));

function fleets() {
  const columns = ['Policy', report.prices && 'Cost', 'CPU core-hours', 'CPU slack', 'Over CPU request', 'Throttled core-seconds',
    'Memory GiB-hours', 'Memory slack', 'OOM kills', 'Evictions', 'Resizes', 'Adapts in'].filter(Boolean);
  return [
    h('p', 'All workloads together, over the whole history, and in comparison with the manifests. The number is that of the plots below. ', h('span.label.good', 'unbeaten'),
      ' marks policies that no other one beats: at least as good in footprint, OOM kills, evictions and CPU time over request, and better in one of them.'),
    folds('policies', policies, shown, (part, from) => table('Policies, all workloads together', columns, part.map((p, i) => fleet(p, from + i))), true),
  ];
}

function fleet(p, i) {
  const f = p.fleet, spread = f.spread, adapt = f.adaptSeconds;
  const figure = (text, beside) => cell('n', text, h('small', beside));
  const than = of => of(f) === undefined ? cell('n') : figure(whole(of(f)), manifest && manifest !== p && against(of(f), of(manifest.fleet)));
  return [
    head(nr(i), ' ', p.name, p.pareto && [' ', h('span.label.good', 'unbeaten')], aboutPolicy(p) && h('small', aboutPolicy(p))),
    report.prices && than(f => f.cost), than(f => f.cpu.requestedCoreHours),
    figure(share(f.cpu.slackShare), 'worst ' + share(spread.cpuSlackShare.worst)), figure(share(f.cpu.overRequestShare), 'worst ' + share(spread.cpuOverRequestShare.worst)),
    figure(whole(f.cpu.throttledCoreSeconds)), than(f => f.memory.requestedGiBHours), figure(share(f.memory.slackShare), 'worst ' + share(spread.memorySlackShare.worst)),
    figure(grouped(f.ooms), 'in ' + counted(f.workloadsWithOOMs, 'workload')), figure(grouped(f.evictions), number(f.evictionsPerWorkloadDay) + ' a day each'),
    figure(grouped(f.resizes), number(f.resizesPerWorkloadDay) + ' a day each'), adapt.count === 0 ? figure('–') : figure(long(adapt.p50), '95%: ' + long(adapt.p95)),
  ].filter(Boolean);
}

// What policies save against what that costs.

const deep = 260, above = 14, plotted = 200; // pixels of a plot, and above its largest value; most policies of one

function tradeoffs() {
  const cpu = {name: 'CPU requested', unit: ' in core-hours', of: f => f.cpu.requestedCoreHours, text: whole};
  const memory = {name: 'memory requested', unit: ' in GiB-hours', of: f => f.memory.requestedGiBHours, text: whole};
  return [
    h('p', 'Each point is a policy, by its number in the table above, or several that are close together; left is cheaper, down is safer. ' +
      'The line joins those that no other one beats in this plot. ', h('em', 'hindsight'), ' knows the future and cannot be had.'),
    h('div.charts',
      tradeoff('CPU', cpu, {name: 'time over the CPU request', of: f => f.cpu.overRequestShare, text: exactShare}),
      tradeoff('Memory', memory, {name: 'OOM kills', of: f => f.ooms, text: whole}),
      tradeoff('Slack of CPU', {name: 'CPU slack', of: f => f.cpu.slackShare, text: exactShare},
        {name: 'throttled', unit: ' in core-seconds', of: f => f.cpu.throttledCoreSeconds, text: whole}),
      tradeoff('Slack of memory', {name: 'memory slack', of: f => f.memory.slackShare, text: exactShare}, {name: 'time over the memory request', of: f => f.memory.overRequestShare, text: exactShare})),
  ];
}

// even are three to five round numbers above zero.
function even(top) {
  const power = 10 ** Math.floor(Math.log10(top)), step = power * ([0.1, 0.2, 0.5, 1, 2].find(part => top / (power * part) <= 5) ?? 1);
  return [1, 2, 3, 4, 5, 6].map(n => n * step).filter(value => value <= top);
}

// tradeoff draws one plot. The table of policies has its numbers in text.
function tradeoff(title, across, down) {
  const spots = policies.slice(0, plotted).map((policy, i) => ({policy, i, x: across.of(policy.fleet), y: down.of(policy.fleet)}));
  const right = 1.08 * Math.max(...spots.map(p => p.x)), top = 1.08 * Math.max(...spots.map(p => p.y));
  if (!(right > 0)) return;
  if (!(top > 0)) return h('p.none', `${down.name}: 0 with each policy, so there is no plot of it.`);
  const x = value => percent(value / right), y = value => +(deep - value / top * (deep - above)).toFixed(1);
  const text = (at, ...words) => s('text', at, words);
  return h('figure.chart', h('figcaption', title, ' ', h('small', `${down.name}${down.unit ?? ''} against ${across.name}${across.unit ?? ''}`)),
    h('div.time',
      s('svg.y', {width: 64, height: 300, 'aria-hidden': 'true'}, [0, ...even(top)].map(t => text({x: 58, y: y(t) + 4, 'text-anchor': 'end'}, t ? down.text(t) : '0'))),
      s('svg.plot', {width: '100%', height: 300}, even(top).map(t => s('line.grid', {x1: 0, x2: '100%', y1: y(t), y2: y(t)})),
        s('line.axis', {x1: 0, x2: '100%', y1: deep, y2: deep}),
        even(right).map(t => [s('line.axis', {x1: x(t), x2: x(t), y1: deep, y2: deep + 4}), text({x: x(t), y: deep + 18, 'text-anchor': 'middle'}, across.text(t))]),
        text({x: '100%', y: deep + 36, 'text-anchor': 'end'}, `${across.name}${across.unit ?? ''} →`),
        front(spots).map(([a, b]) => [s('line.front', {x1: x(a.x), x2: x(b.x), y1: y(a.y), y2: y(a.y)}), s('line.front', {x1: x(b.x), x2: x(b.x), y1: y(a.y), y2: y(b.y)})]),
        near(spots, p => p.x / right, p => y(p.y)).map(group => spot(group, x, y, across, down)))));
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

// near groups the points that would cover each other, by the first of each group: those within 3% of the width and
// 16 pixels.
function near(spots, x, y) {
  const out = [];
  for (const p of spots) {
    const group = out.find(([first]) => Math.abs(x(first) - x(p)) < 0.03 && Math.abs(y(first) - y(p)) < 16);
    group ? group.push(p) : out.push([p]);
  }
  return out;
}

// spot is a point for policies that are close together. It leads to the first.
function spot(group, x, y, across, down) {
  const [first] = group, text = numbersOf(group.map(p => p.i + 1)), half = Math.max(11, 5 + 4 * text.length);
  const kind = group.some(p => p.policy === closely) ? 'main' : group.some(p => !isBaseline(p.policy) && p.policy.name !== 'upstream') ? 'candidate' : 'baseline';
  const said = group.map(p => `${p.i + 1} ${[p.policy.name, aboutPolicy(p.policy)].filter(Boolean).join(' ')}: ${across.text(p.x)} ${across.name}, ${down.text(p.y)} ${down.name}`);
  return s('a', {href: '#policy-' + (first.i + 1)}, s('title', said.join('; ')), s('svg.spot', {x: x(first.x), y: y(first.y)},
    s('rect.' + kind, {x: -half, y: -11, width: 2 * half, height: 22, rx: 11}), s('text.in', {'aria-hidden': 'true', x: 0, y: 4, 'text-anchor': 'middle'}, text)));
}

// numbersOf are those of policies, such as 3–5, 7, in up to 9 characters.
function numbersOf(list) {
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
const unusedCPU = w => w.cpu.slackShare * w.cpu.requestedCoreHours;
const unusedMemory = w => w.memory.slackShare * w.memory.requestedGiBHours;
const listings = [
  ['Killed most often', 'No container was killed for memory.', w => w.ooms, w => counted(w.ooms, 'OOM kill')],
  ['Longest over the CPU request', 'No container used more CPU than it requested.', w => w.cpu.overRequestShare, w => share(w.cpu.overRequestShare) + ' of the time'],
  ['Most CPU reserved and not used', 'No CPU was reserved and not used.', unusedCPU, w => `${whole(unusedCPU(w))} core-hours, ${share(w.cpu.slackShare)}`],
  ['Most memory reserved and not used', 'No memory was reserved and not used.', unusedMemory, w => `${whole(unusedMemory(w))} GiB-hours, ${share(w.memory.slackShare)}`],
  ['Evicted most often', 'No pod was evicted.', w => w.evictions, w => counted(w.evictions, 'eviction')],
];
const same = (a, b) => a.namespace === b.namespace && a.kind === b.kind && a.workload === b.workload && a.container === b.container;

function worst() {
  const workloads = closely.workloads ?? [], never = workloads.filter(w => w.neverUpdated);
  const row = w => head(w.workload, h('small', `${w.namespace} ${w.kind}`));
  const list = (title, columns, all, cells) => h('div', h('h3', title), table(title, columns, all.slice(0, ranked).map(cells)),
    all.length > ranked && h('p.more', `and ${grouped(all.length - ranked)} others`));
  return [
    h('p', `With policy ${closely.name}, and in comparison with the requests in the manifests.`),
    h('div.lists', listings.map(([title, none, of, text]) => {
      const all = workloads.filter(w => of(w) > 0).sort((a, b) => of(b) - of(a));
      return !all.length ? h('div', h('h3', title), h('p.none', none)) : list(title, ['Workload', 'Policy ' + closely.name, 'With the manifests'], all, w => {
        const was = (before?.workloads ?? []).find(b => same(b, w));
        return [row(w), text(w), was ? text(was) : '–'];
      });
    }), never.length > 0 && list('Never evicted or resized', ['Workload', 'Why'], never, w => [row(w), [w.neverUpdated.reason, h('small', h('code', w.neverUpdated.rule))]])),
  ];
}

// Containers over time, those that fare worst first, a fold each.

const unfolded = 2, compared = 12, closer = 5, listed = 60; // containers that are open; policies that are compared; containers with charts of other policies; steps
const seriesOf = new Map(charts.series.map(one => [one.policy + ' ' + one.container, one]));

// unpacked are the lines of a resource with a value for each step.
const unpacked = lines => Object.fromEntries(Object.entries(lines).map(([key, runs]) => [key, runs.flatMap((value, i) => i % 2 ? [] : Array(runs[i + 1]).fill(value))]));


const containerList = () => [
  h('p', `With policy ${closely.name}; those with most OOM kills come first, then those that were over their request for longest, then those that waste most.`,
    !charts.series.length && ' This report has no series, so there are no charts.'),
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
        h('p.more', 'Its charts are left out: the page would be too large. ', h('code', '-o json --series'), ' has them.'),
      comparison(c, index),
      others.map(p => fold(['The same with policy ', p.name, ' ', h('span.of', aboutPolicy(p))], drawing(p, p.containers[index], series(p))))));
}

// comparison is how the container fares with each policy.
function comparison(c, index) {
  const name = `container ${c.container} of ${c.namespace}/${c.workload}`;
  const list = policies.map((p, i) => [p, i, p.containers?.[index]]).filter(([p, i, one]) => one && same(one, c) && (i < compared || p === closely));
  return fold('All policies for ' + name, table('All policies for ' + name, [
    'Policy', 'CPU requested', 'CPU slack', 'Over CPU request', 'Throttled', 'Memory requested', 'Memory slack', 'OOM kills', 'Evictions', 'Resizes',
  ], list.map(([p, i, one]) => [
      head(h('span.nr', String(i + 1)), ' ', p.name, h('small', aboutPolicy(p))),
      whole(one.cpu.requestedCoreHours) + ' core-hours', share(one.cpu.slackShare), share(one.cpu.overRequestShare), whole(one.cpu.throttledCoreSeconds) + ' core-seconds',
      whole(one.memory.requestedGiBHours) + ' GiB-hours', share(one.memory.slackShare), grouped(one.ooms), grouped(one.evictions), grouped(one.resizes),
    ])));
}

const resources = [
  {key: 'cpu', name: 'CPU', title: 'CPU', binary: false, text: cores},
  {key: 'memory', name: 'memory', title: 'Memory', binary: true, text: bytes},
];
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
    curves: [['peak', 'largest use of a pod', lines.usageMax], ['mean', 'mean use', lines.usage], ['limit', 'limit', lines.limit], ['target', 'target', lines.target], ['request', 'request', lines.request]]
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
  return `${r.name} of container ${c.container} with policy ${p.name}: use up to ${r.text(most(lines.usageMax))}${ends('request', lines.request)}${ends('limit', lines.limit)}${ends('target', lines.target)}; ` +
    `${counted(c.evictions, 'eviction')}, ${counted(c.resizes, 'resize')}, ${counted(c.ooms, 'OOM kill')}`;
}

// happened is what happened to a container and by which rules, oldest first.
function happened(p, c, series) {
  const list = [
    ...(series.causes ?? []).map(one => ({at: one.at, what: 'new target', detail: both(one), rules: one.rules ?? []})),
    ...(series.events ?? []).filter(e => e.type !== 'Started' && e.type !== 'Ended').map(e => ({
      at: e.at, what: eventNames.get(e.type) ?? e.type, rules: e.rule ? [e.rule] : [], reason: e.reason,
      detail: [e.type === 'OOM' && e.memory ? 'memory limit and use ' + changed(e.memory, bytes) : both(e), e.pod && 'pod ' + e.pod].filter(Boolean).join('; '),
    })),
  ].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  if (!list.length) return h('p.none', 'Nothing happened to it, and its recommendation did not change.');
  const name = `policy ${p.name}, container ${c.container} of ${c.namespace}/${c.workload}`;
  const cut = (series.eventsCut ?? 0) + (series.causesCut ?? 0) + Math.max(0, list.length - listed);
  return fold([`Each step, and the rules that caused it: ${counted(list.length, 'step')} `, h('span.of', name)],
    table('Steps: ' + name, ['Time', 'What', 'From and to', 'Rules'], list.slice(0, listed).map(one => [
      cell('when', time(one.at)), cell('word', one.what), one.detail, [one.rules.map((rule, i) => [i > 0 && ', ', h('code', rule)]), one.reason && h('small', one.reason)],
    ])), cut > 0 && h('p.more', counted(cut, 'later step') + (cut === 1 ? ' is left out.' : ' are left out.')));
}

const both = change => [change.cpu && 'CPU ' + changed(change.cpu, cores), change.memory && 'memory ' + changed(change.memory, bytes)].filter(Boolean).join(', ');

// What is a model, and how the measures are defined.

const words = [
  ['Requested', 'What containers request, times the hours in which their usage is known.'],
  ['Slack', 'Request minus usage while usage is below the request: what is reserved and not used, as a share of what is requested.'],
  ['Over request', 'The share of time in which usage is above the request. A node that is full gives no more than the request.'],
  ['Throttled', 'CPU-seconds wanted above the limit. A container without a limit is not throttled.'],
  ['OOM kills', 'How often memory usage met the limit in force. The history is what containers used under their old limits, so growth beyond those is not in it.'],
  ['Time to adapt', 'How long usage stayed above a request until the request was raised to it.'],
  ['Flaps', 'Changes of a request that undo the direction of the one before within a day.'],
  ['manifest', 'The requests as they are in the manifests: nothing is changed.'],
  ['hindsight', 'The least constant request that usage never exceeds. It knows the future, so no policy can be as good; it shows how much there is to win.'],
  ['upstream', "The shipped rules with the defaults of upstream's Vertical Pod Autoscaler."],
  ['shipped', 'The rules that celvpa ships, with the flags and the RuleOverlays of this run.'],
  ['Unbeaten', 'On the Pareto front: no other policy is at least as good in footprint, OOM kills, evictions and time over request, and better in one of them.'],
];
const modelled = () => [report.modelled?.length > 0 && h('ul', report.modelled.map(text => h('li', text))),
  h('h3', 'Words'), h('dl.words', words.map(([word, text]) => h('div', h('dt', word), h('dd', text))))];

show(headline(), [
  policies.length > 0 && {id: 'policies', title: 'Policies', count: policies.length, content: fleets},
  policies.length > 1 && {id: 'tradeoff', title: 'What saving costs', content: tradeoffs},
  containers.length > 0 && {id: 'worst', title: 'Worst workloads', content: worst},
  containers.length > 0 && {id: 'containers', title: 'Containers over time', count: containers.length, content: containerList},
  {id: 'modelled', title: 'What the numbers rest on', content: modelled},
], ['Written by ', h('code', 'celvpa backtest -o html'), '. The page loads nothing, and holds the numbers that ', h('code', '-o json'), ' prints, unrounded.']);
