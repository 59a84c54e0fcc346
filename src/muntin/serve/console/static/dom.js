// Elements made from data. Whatever comes from the server becomes text, never markup.

/** An element: attributes by name, `on…` for listeners, then children (elements, texts, lists of them, or nothing). */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children)
}

/** The same for SVG. */
export function s(tag, attributes, ...children) {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children)
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
    else if (name === 'value') element.value = value
    else element.setAttribute(name, value === true ? '' : value)
  }
  put(element, children)
  return element
}

function put(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue
    element.append(child instanceof Node ? child : String(child))
  }
}

/** Give an element other children. */
export function fill(element, ...children) {
  element.replaceChildren()
  put(element, children)
  return element
}

/** The head of a page. */
export function head(title, note, ...actions) {
  return h('div', { class: 'head' },
    h('div', {}, h('h1', {}, title), note ? h('p', { class: 'soft' }, note) : null),
    h('div', { class: 'actions' }, actions))
}

/** What is shown where there is nothing to show. */
export function empty(title, note, ...actions) {
  return h('div', { class: 'empty' }, h('h3', {}, title), h('p', { class: 'soft' }, note), actions)
}

/** What went wrong, in the server's own words; with the caret, if it points at a word. */
export function trouble(error) {
  const excerpt = error.told?.excerpt
  return h('div', { class: 'trouble', role: 'alert' },
    h('strong', {}, error.told?.kind === 'SqlError' ? 'This cannot be understood' : 'That did not work'),
    h('p', {}, error.message),
    excerpt ? h('pre', { class: 'excerpt' }, excerpt.includes('\n') ? excerpt.slice(excerpt.indexOf('\n') + 1) : excerpt) : null)
}

/** Say something in passing. */
export function toast(text, isBad = false) {
  const shown = h('div', { class: isBad ? 'toast bad' : 'toast' }, text)
  document.getElementById('toasts').append(shown)
  setTimeout(() => shown.remove(), isBad ? 8000 : 4000)
}

/** Ask before something that cannot be undone; whether the answer is yes. */
export function ask(title, text, action) {
  return new Promise(resolve => {
    const box = h('dialog', { class: 'ask', 'aria-label': title },
      h('form', { method: 'dialog' },
        h('h2', {}, title), h('p', { class: 'soft' }, text),
        h('div', { class: 'actions' },
          h('button', { value: 'no', type: 'submit' }, 'Keep it'),
          h('button', { value: 'yes', type: 'submit', class: 'danger' }, action))))
    box.addEventListener('close', () => { resolve(box.returnValue === 'yes'); box.remove() })
    document.body.append(box)
    box.showModal()
  })
}

/** A table of rows as they came: a list of objects. */
export function rowsTable(rows, columns, actions) {
  const names = columns ?? Object.keys(rows[0] ?? {})
  const numeric = name => rows.some(row => typeof row[name] === 'number')
  const aligned = Object.fromEntries(names.map(name => [name, numeric(name) ? 'num' : null]))
  return h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, names.map(name => h('th', { scope: 'col', class: aligned[name] }, name)),
      actions ? h('th', { scope: 'col' }, h('span', { class: 'unseen' }, 'Actions')) : null)),
    h('tbody', {}, rows.map(row => h('tr', {},
      names.map(name => h('td', { class: aligned[name] }, cell(row[name]))),
      actions ? h('td', { class: 'num' }, actions(row)) : null)))))
}

/** A value as a cell shows it. */
export function cell(value) {
  if (value === null || value === undefined) return h('span', { class: 'faint' }, 'NULL')
  if (typeof value === 'number') return value.toLocaleString('en', { maximumFractionDigits: 4 })
  if (typeof value === 'object') return JSON.stringify(value)
  const text = String(value)
  return /^\d{4}-\d\d-\d\dT/.test(text) ? text.replace('T', ' ').replace(/(\.\d{3})\d*/, '$1').replace('Z', '') : text
}

/** SQL with its words told apart. */
export function highlighted(text, wrong) {
  const words = /(--[^\n]*|\/\*[^]*?\*\/)|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\b\d+(?:\.\d+)?\b)|(\b[A-Za-z_]\w*\b)|([^])/g
  const parts = []
  let at = 0
  for (const [word, comment, string, , number, name] of text.matchAll(words)) {
    const kind = comment ? 'comment' : string ? 'string' : number ? 'number' : name && KEYWORDS.has(name.toUpperCase()) ? 'keyword' : null
    const isWrong = wrong !== undefined && wrong !== null && at <= wrong && wrong < at + word.length
    const shown = isWrong ? h('span', { class: `wrong ${kind ? `sql-${kind}` : ''}` }, word) : kind ? h('span', { class: `sql-${kind}` }, word) : word
    parts.push(shown)
    at += word.length
  }
  if (wrong !== undefined && wrong !== null && wrong >= text.length) parts.push(h('span', { class: 'wrong' }, ' '))
  return parts
}

const KEYWORDS = new Set(('SELECT FROM WHERE GROUP BY HAVING AS AND OR NOT BETWEEN IN IS NULL JOIN LEFT ON OVER FILTER RANGE ROWS SLIDE TO UP STEP ' +
  'EMIT CHANGES DISTINCT CASE WHEN THEN ELSE END LIKE EXISTS EXCEPT SECOND SECONDS MINUTE MINUTES HOUR HOURS DAY DAYS MILLISECOND ' +
  'MILLISECONDS SUM COUNT AVG MIN MAX FIRST LAST QUANTILE MEDIAN MODE STDDEV VARIANCE VAR_POP APPROX_QUANTILE APPROX_COUNT APPROX_FREQUENT').split(' '))
