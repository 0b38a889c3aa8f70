// What is seen too little: text below 4.5:1, and marks of charts below 3:1.
(() => {
  const channels = color => color.match(/[\d.]+/g).map(Number);
  const luminance = color => {
    const [r, g, b] = channels(color).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor, alpha = channels(color)[3];
      if (alpha === undefined || alpha === 1) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const faults = new Set();
  const check = (element, color, least) => {
    const got = ratio(color, behind(element));
    if (got < least) faults.add(`${element.tagName} ${element.getAttribute('class') || ''} ${color} on ${behind(element)}: ${got.toFixed(2)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    seen++;
    const style = getComputedStyle(element);
    if (element.matches('text.in')) {
      const on = getComputedStyle(element.previousElementSibling).fill; // a circle
      if (ratio(style.fill, on) < 4.5) faults.add(`text ${style.fill} on ${on}: ${ratio(style.fill, on).toFixed(2)}`);
      continue;
    }
    check(element, element.closest('svg') ? style.fill : style.color, 4.5);
  }
  if (seen < 10) faults.add(`only ${seen} texts are seen`);
  // Areas are drawn behind lines that say the same.
  for (const e of document.querySelectorAll('svg rect:not(.band, .area), svg circle, path.evicted, path.resized')) check(e, getComputedStyle(e).fill, 3);
  for (const e of document.querySelectorAll('line.target, line.request, line.usage, line.bound, line.axis, line.now, line.front, line.peak, line.mean, line.limit, path.peak, path.mean, path.usage, path.bound, path.limit, path.request, path.target, path.oom')) check(e, getComputedStyle(e).stroke, 3);
  return [...faults];
})()
