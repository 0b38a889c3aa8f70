// The viewer of an explanation, after what all pages share.

const report = read('report');
const amounts = read('charts'); // each quantity of the report as a number, and as people read it
const now = Date.parse(report.now);

// kinds are the classes of findings: the symbol, the name in the style, what it asks for, and whether it keeps something
// from happening. Each has its name as text, so that nothing hangs on a colour.
const kinds = new Map([
  ['Misconfigured', ['✕', 'bad', 'somebody has to change something', true]],
  ['Waiting', ['◷', 'wait', 'time or the cluster resolves it', true]],
  ['Settled', ['✓', 'good', 'nothing to do']],
  ['Info', ['i', 'info', 'explains a number']],
]);
const styleOf = kind => kinds.get(kind)?.[1] ?? 'none';
const label = kind => kind && h('span.label.' + styleOf(kind), kinds.has(kind) && h('span', {'aria-hidden': 'true'}, kinds.get(kind)[0] + ' '), kind);

// away says how far a time is from now.
const away = t => Date.parse(t) > now ? 'in ' + duration((Date.parse(t) - now) / 1000) : duration((now - Date.parse(t)) / 1000) + ' ago';

const short = text => amounts[text]?.short ?? text;
const drawn = text => amounts[text]?.value ?? null;

// topOf fits the quantities that are none of the outer ones, and these as long as they are no more than 3 times as
// large: the upper bound of a young VPA would flatten all else.
function topOf(inner, outer) {
  const most = list => Math.max(0, ...list.map(drawn));
  const top = most(inner);
  return 1.04 * Math.max(top, ...outer.map(drawn).filter(length => length <= 3 * top || top === 0));
}

// What pods have.

// held is how many pods have each value of a field of a container, and how many would get it from admission.
const held = new Map();
const place = (container, field) => JSON.stringify([container ?? '', field]);
for (const pod of report.pods ?? []) {
  for (const c of pod.containers ?? []) {
    const at = place(c.container, c.field);
    if (!held.has(at)) held.set(at, {now: new Map(), new: new Map()});
    for (const which of ['now', 'new']) held.get(at)[which].set(c[which] ?? '', (held.get(at)[which].get(c[which] ?? '') ?? 0) + 1);
  }
}
const heldBy = (a, field) => held.get(place(a.container, field + '.' + a.resource));
const frequent = (counts, n) => [...counts].sort((a, b) => b[1] - a[1]).slice(0, n);

// The verdict and the findings.

function verdict() {
  const {token, action, text} = report.verdict;
  const kind = (report.findings ?? []).find(f => f.token === token)?.class ?? (report.pods ?? []).find(p => p.rule === token)?.class;
  const unknown = report.unknown?.length;
  return [
    h('h1', h('small', 'celvpa explain'), ' ', report.subject),
    h('div.verdict.' + styleOf(kind), {role: 'region', 'aria-label': 'Verdict'},
      h('p.labels', label(kind), ' ', action && h('span', "The updater's next step: ", h('strong', action)), ' ', token && h('code', token)),
      h('p.text', text),
      unknown && h('p', h('a', {href: '#unknown'}, unknown === 1 ? 'One thing is not known' : grouped(unknown) + ' things are not known'), ', so the answer may be incomplete.')),
    about([['VerticalPodAutoscaler', report.vpa || 'none'], ['Target', report.target], ['Update mode', report.mode], ['Pipeline', report.rules.pipeline], ['As of', time(report.now)]]),
  ];
}

// grouped by a key, in the order in which the keys come.
function groups(list, key) {
  const out = new Map();
  for (const one of list) out.has(key(one)) ? out.get(key(one)).push(one) : out.set(key(one), [one]);
  return [...out.values()];
}

const alike = 3; // findings of one token that are open

const findings = () => groups(report.findings, f => f.class).map(list => {
  const title = h('h3.kind', label(list[0].class), ' ', kinds.get(list[0].class)?.[2], h('span.count', grouped(list.length)));
  const all = groups(list, f => f.token).map(same => folds(same[0].token, same, alike, part => h('ul.findings', part.map(finding))));
  return list.length === report.findings.length || kinds.get(list[0].class)?.[3] ? [title, all] : fold(title, all);
});

// finding leaves out what the verdict says. Rules say what has to happen, and so do findings that wait; others say what helps.
const finding = f => h('li.' + styleOf(f.class),
  h('p.labels', h('code', f.token), ' ', f.about && h('span.of', f.about)),
  !report.verdict.text.toLowerCase().includes(f.text.toLowerCase()) && h('p.text', f.text),
  f.wayOut && h('p.text', h('strong', f.class === 'Waiting' || f.token.includes('/') ? 'Until:' : f.class === 'Info' ? '→' : 'What to do:'), ' ', f.wayOut));

// The way of each number.

const unfolded = 3; // containers, on paper too
const nameOf = a => a.container ? 'container ' + a.container : 'the pod as a whole';

const numbers = () => [
  h('p', report.resources.some(a => a.way) ? 'What pods use, the rules that make it a target, what admission gives new pods, and what the pods have now.'
    : 'Neither usage nor the rules that set these targets are known.'),
  folds('containers', groups(report.resources, a => a.container ?? ''), shown, (part, from) => part.map((list, i) => h('details.container', from + i < unfolded && {open: ''},
    h('summary', h('h3', nameOf(list[0])), list.map(a => [' ', h('span.brief', a.resource, ' ', h('strong', brief(a)))])), list.map(resource)))),
];

// brief is what the pods request now and what is recommended.
function brief(a) {
  const counts = heldBy(a, 'requests')?.now, target = short(a.target) || 'no target';
  const request = counts && (counts.size > 1 ? counted(counts.size, 'value') : short([...counts.keys()][0]) || 'unset');
  return request && request !== target ? `${request} → ${target}` : target;
}

const resource = a => h('article', h('h4', a.resource, ' ', h('span.of', 'of ' + nameOf(a))), flow(a), h('div.charts', bars(a), overTime(a)),
  a.bounds && fold(`Rules that set the bounds of ${a.resource} of ${nameOf(a)}`, ruleTable(`${a.resource} bounds of ${nameOf(a)}`, a.bounds)));

// amount is a quantity under what it is, with all of its digits if it is rounded.
const amount = (of, quantity, missing = 'none') => h('p.amount', of && [h('span.of', of), ' '], h('strong', short(quantity) || missing), short(quantity) !== quantity && [' ', h('small', quantity)]);

const flow = a => h('ol.flow', {'aria-label': `Way of ${a.resource} of ${nameOf(a)}`}, [
  ['', 'Usage', usage(a)],
  ['.rules', 'Rules', way(a)],
  ['.target', 'Target', [amount('', a.target), (a.lowerBound || a.upperBound) && [amount('lower bound', a.lowerBound), amount('upper bound', a.upperBound)],
    a.uncappedTarget && a.uncappedTarget !== a.target && amount('uncapped', a.uncappedTarget)]],
  ['', 'New pods', podAmounts(a, 'new')],
  ['', 'Pods now', podAmounts(a, 'now')],
].map(([kind, title, content]) => content && h('li' + kind, h('h5', title), content)));

// usage is the percentile that became the target, or else the highest ones.
function usage(a) {
  const used = a.usage?.find(p => p.used);
  return (a.usage?.length > 0 || a.lastUsage) && [(used ? [used] : a.usage?.slice(-3) ?? []).map(p => amount('percentile ' + p.percent, p.amount)), a.lastUsage && amount('last', a.lastUsage)];
}

const way = a => a.way?.length > 0 && [
  h('ol.way', a.way.slice(0, shown).map(step => h('li',
    h('p', step.item && step.item !== 'target' && [h('span.of', step.item), ' '], h('span.from', short(step.from) || 'unset'), ' ',
      step.error ? h('strong', 'failed') : [h('span.to', '→ '), h('strong', short(step.to) || 'unset')]),
    step.error && h('p', step.error), rule(step)))),
  a.way.length > shown && h('p.more', `and ${grouped(a.way.length - shown)} more rules`)];

// rule is which rule made a step, where it stands, and why.
const rule = step => [step.reason && h('p.why', step.reason),
  h('p.rule', h('code', [step.ruleSet, step.stage, step.rule].filter(Boolean).join('/')), ' ', step.version, ' ', h('span.at', step.overlay && `overlay ${step.overlay}, `, step.at))];

function podAmounts(a, which) {
  const out = ['request', 'limit'].map(field => {
    const counts = heldBy(a, field + 's')?.[which];
    return counts && [frequent(counts, 3).map(([value, pods]) => amount(counts.size > 1 ? `${field}, ${counted(pods, 'pod')}` : field, value, 'unset')),
      counts.size > 3 && h('p.more', 'and ' + counted(counts.size - 3, 'other value'))];
  });
  return out.some(Boolean) && out;
}

// bars are usage beside request, target and bounds: a table whose last column draws them on one scale. All rows say in
// text what they draw.
function bars(a) {
  const requests = frequent(heldBy(a, 'requests')?.now ?? new Map(), 3);
  const top = topOf([a.lastUsage, a.target, a.lowerBound, ...(a.usage ?? []).map(p => p.amount), ...requests.map(([value]) => value)], [a.upperBound, a.uncappedTarget]);
  if (top === 0) return;
  const at = text => percent(Math.min(1, drawn(text) / top)), past = text => drawn(text) > top;
  const beyond = kind => s('text' + kind, {x: '100%', y: 15, 'text-anchor': 'end'}, 'beyond the scale →');
  const guide = a.target && drawn(a.target) !== null && !past(a.target) && s('line.guide', {x1: at(a.target), x2: at(a.target), y1: 0, y2: '100%'});
  const row = (name, value, ...parts) => [name, short(value), guide && guide.cloneNode(), ...parts];
  const dot = (name, value, kind) => value && row(name, value, past(value) ? beyond('') : drawn(value) !== null && s('circle.' + kind, {cx: at(value), cy: 11, r: 5}));
  const bounds = () => {
    const end = s => drawn(s) !== null && !past(s), low = at(a.lowerBound), up = end(a.upperBound) ? at(a.upperBound) : '100%';
    const line = (x1, x2, y1, y2) => s('line.bound', {x1, x2, y1, y2});
    return row('bounds', `${short(a.lowerBound) || 'none'} to ${short(a.upperBound) || 'none'}`, line(low, up, 11, 11), line(low, low, 6, 16),
      end(a.upperBound) ? line(up, up, 6, 16) : past(a.upperBound) && beyond('.halo'));
  };
  const rows = [
    ...(a.usage ?? []).map(p => row(`percentile ${p.percent}${p.used ? ', used' : ''}`, p.amount,
      drawn(p.amount) !== null && s('rect.' + (p.used ? 'used' : 'usage'), {width: at(p.amount), y: 5, height: 12, rx: 2}))),
    dot('last usage', a.lastUsage, 'usage'),
    ...requests.map(([value, pods]) => dot(requests.length > 1 ? 'request now, ' + counted(pods, 'pod') : 'request now', value, 'request')),
    dot('target', a.target, 'target'),
    a.uncappedTarget !== a.target && dot('uncapped target', a.uncappedTarget, 'target'),
    (a.lowerBound || a.upperBound) && bounds(),
  ].filter(Boolean);
  const axis = ticks(top, a.resource !== 'cpu').map(([x, name]) => [s('line.axis', {x1: percent(x), x2: percent(x), y1: 1, y2: 5}), s('text', {x: percent(x), y: 17, 'text-anchor': x > 0.9 ? 'end' : 'middle'}, name)]);
  return h('div.chart', h('table.bars', h('caption', `${a.usage || a.lastUsage ? 'Usage against request, target' : 'Request against target'} and bounds of ${a.resource}`), h('colgroup', h('col.name'), h('col.number'), h('col')),
    h('thead', h('tr', ['what', 'amount', 'on a scale'].map(c => h('th', {scope: 'col'}, c)))),
    h('tbody', rows.map(([name, number, ...parts]) => h('tr', head(name), cell('n', number), cell('plot', s('svg', {width: '100%', height: 22, 'aria-hidden': 'true'}, parts))))),
    h('tfoot', {'aria-hidden': 'true'}, h('tr', cell(''), cell(''), cell('plot', s('svg', {width: '100%', height: 20}, s('line.axis', {x1: 0, x2: '100%', y1: 1, y2: 1}), axis))))));
}

// overTime draws what is known of the past, and how the target falls if usage stays as it is. What the pods request
// and use now stays, as the falls assume.
function overTime(a) {
  const history = a.history ?? [], falls = a.falls ?? [];
  if (!history.length && !falls.length) return;
  const line = (key, current) => [...history.map(p => [Date.parse(p.time), p[key]]), [now, current]].filter(p => p[1]);
  const request = heldBy(a, 'requests')?.now, end = falls.length ? Date.parse(falls.at(-1).at) : now;
  const curves = [
    {kind: 'bound', name: 'lower bound', quiet: true, points: line('lowerBound', a.lowerBound)},
    {kind: 'bound', name: 'upper bound', quiet: true, points: line('upperBound', a.upperBound)},
    {kind: 'usage', name: 'usage', points: line('usage', a.lastUsage)},
    {kind: 'target', name: 'target', points: [...line('target', a.target), ...falls.map(f => [Date.parse(f.at), f.target])]},
    {kind: 'request', name: 'request', points: line('request', request && frequent(request, 1)[0][0])},
  ];
  if (falls.length) {
    for (const c of [curves[2], curves[4]]) if (c.points.length) c.points.push([end, c.points.at(-1)[1]]);
    curves[3].points.push([end + (end - now) / 20, falls.at(-1).target]);
  }
  const values = list => list.flatMap(c => c.points.map(p => p[1])), moments = curves.flatMap(c => c.points.map(p => p[0]));
  const from = Math.min(now, ...moments), to = Math.max(now, ...moments), top = topOf(values(curves.slice(2)), values(curves.slice(0, 2)));
  if (top === 0 || to <= from) return;
  for (const c of curves) c.points = c.points.map(([t, value]) => [t, drawn(value), value]);
  const lower = curves[0].points, upper = curves[1].points;
  return timeChart({
    title: a.resource + (history.length ? ' over time' : ' if usage stays as it is'), detail: period(from, to), from, to, top, binary: a.resource !== 'cpu', now, text: p => short(p[2]),
    label: `${a.resource} over time${history.length ? ', since ' + clock(history[0].time) : ''}` +
      `${falls.length ? `: the target falls from ${short(a.target)} to ${short(falls.at(-1).target)}, ${away(falls.at(-1).at)}` : ''}`,
    areas: [{kind: 'band', name: 'bounds', points: upper.map(([t, up]) => [t, lower.findLast(p => p[0] <= t)?.[1] ?? null, up])}],
    curves: curves.filter(c => c.points.length > 1),
    more: falls.length > 0 && [h('p', 'If usage stays as it is, the target falls:'), h('ul.falls',
      falls.slice(0, shown).map(f => h('li', 'to ', h('strong', short(f.target)), ` ${away(f.at)}, at `, time(f.at))),
      falls.length > shown && h('li', `and ${falls.length - shown} more`))],
  });
}

// Pods.

function pods() {
  return [
    h('p', 'In the order in which the updater changes them. The difference is that between requests and targets, CPU and memory added up.'),
    folds('pods', report.pods, shown, part => table('Pods', ['Pod', 'Next', 'Why', 'Difference', 'Change'], part.map(pod))),
    folds('rules of pods', report.pods.filter(p => p.steps?.length), shown, part => part.map(p => fold('Rules for pod ' + p.pod, ruleTable(p.pod, p.steps)))),
  ];
}

const pod = p => [
  head(p.pod, h('small', [p.phase, p.qosClass, p.node].filter(Boolean).join(', '))), h('strong', p.action),
  [p.rule && h('p.labels', h('code', p.rule), ' ', label(p.class)), h('p', p.reason), [
    ['Until', p.until], ['Resize', p.resize], ['Its node could not give', p.infeasible], ['Postponed by the last cycle', p.postponed], ['Will be postponed', p.later],
    ['Refused evictions', refused(p.evictions)], ['Refused resizes', refused(p.resizes)],
  ].map(([of, text]) => text && h('p', h('span.of', of + ':'), ' ', text))],
  p.priority ? [p.priority.resourceDiff === null ? 'unknown' : grouped(Math.round(100 * p.priority.resourceDiff)) + '%',
    h('small', [p.priority.scaleUp && 'needs more', p.priority.outsideRecommendedRange && 'outside the range'].filter(Boolean).join(', '))] : '–',
  changes(p.change?.map(c => `${c.container || 'the pod'}: ${c.field} ${short(c.from) || 'unset'}\u00a0→\u00a0${short(c.to)}`)) ?? 'none',
];

const refused = r => r && `${grouped(r.times)}, the last at ${clock(r.last)}: ${r.message ?? ''}`;

const changes = list => list && h('ul.plain', list.slice(0, shown).map(c => h('li', short(c))), list.length > shown && h('li', 'and ' + counted(list.length - shown, 'other change')));

function ruleTable(of, list) {
  const most = 100;
  return [table('Rules for ' + of, ['Item', 'Field', 'From', 'To', 'Rule'],
    list.slice(0, most).map(step => [step.item || '–', step.field || '–', step.from || '–', step.to || '–', [step.error && h('p', 'Failed: ' + step.error), rule(step)]])),
  list.length > most && h('p.more', 'and ' + counted(list.length - most, 'more rule'))];
}

// What happened.

const decisions = () => folds('decisions', [...report.decisions].reverse(), shown, part => table('Decisions, newest first', ['Time', 'Process', 'Action', 'About', 'Why and what', 'Identifiers'], part.map(d => [
  cell('when', time(d.time), h('small', away(d.time))), cell('word', d.component), cell('word', d.action), d.pod || 'the VPA',
  [d.rule && h('p', h('code', d.rule)), d.reason && h('p', d.reason), changes(d.changes)],
  cell('ids', [['decision', d.id], ['inputs', d.inputs], ['rules', d.rules]].map(([of, id], i) => [i > 0 && h('br'), of + ' ', h('code', id)])),
])));

const events = () => [
  folds('events', [...report.events].reverse(), shown, part => table('Events, newest first', ['Time', 'Type', 'Object', 'Reason', 'Message'],
    part.map(e => [cell('when', known(e.time) && [time(e.time), h('small', away(e.time), e.count > 1 && ', ' + counted(e.count, 'time'))]), e.type, e.object, e.reason, e.message]))),
  report.eventsCut > 0 && h('p.more', 'and ' + counted(report.eventsCut, 'older event')),
];

// Where the answers come from.

const own = report.rules;
const processes = () => [
  report.processes?.length > 0 && table('Processes', ['Process', 'Instance', 'Version', 'Leads', 'Its time', 'Pipeline', 'Rules'], report.processes.map(p => [
    head(p.component), p.instance, p.version, p.leads ? 'yes' : 'no', cell('when', time(p.now)), p.rules.pipeline || '–',
    [h('code', p.rules.digest || 'not known'), p.rules.digest && own.digest && p.rules.digest !== own.digest && [' ', h('strong', 'differs')]],
  ])),
  about([['Pipeline', own.pipeline], ['Digest of the rules', own.digest], ['Overlays', own.overlays?.join(', ')], ['Audited overlays', own.audited?.join(', ')],
    ['Overlays that cannot be evaluated', own.untried?.join('; ')], ['Fault', own.fault]]),
];

const unknowns = () => folds('things', report.unknown, shown, part => h('ul.findings', part.map(text => h('li.wait', h('p', text)))));

const section = (id, title, list, content) => list?.length > 0 && {id, title, count: list.length, content};
const all = [
  section('findings', 'Findings', report.findings, findings),
  section('numbers', 'Resources', report.resources, numbers),
  section('pods', 'Pods', report.pods, pods),
  section('decisions', 'Decisions', report.decisions, decisions),
  section('events', 'Events', report.events, events),
  section('processes', 'Processes', report.processes, processes) || own.digest && {id: 'processes', title: 'Rules', content: processes},
  section('unknown', 'Not known', report.unknown, unknowns),
];
show(verdict(), all, ['Written by ', h('code', 'celvpa explain'), ' at ', time(report.now), '. The page makes no requests. It holds the report as ', h('code', '-o json'), ' prints it.']);
